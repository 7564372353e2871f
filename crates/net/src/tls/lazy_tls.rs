//! TLS in a connection's byte stream: the handshake runs where the stream is read or written.
//!
//! Invariant: a peer that does not complete its handshake costs its own connection only. No accept
//! loop waits for it, and after [`HANDSHAKE_TIMEOUT`] the connection fails.
//!
//! Schedule that breaks it: a stranger opens connections and says nothing. If the loop that accepts
//! connections also ran the handshakes, no other caller could connect.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_rustls::TlsStream;

use super::handshake_error::describe;
use crate::transport::ByteStream;

/// Maximum time of a handshake, from the first use of the stream.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection under TLS.
pub(crate) type OpenTls = TlsStream<Box<dyn ByteStream>>;

/// One end of a connection under TLS. A failed handshake is the error of the read or write that
/// meets it first.
pub(crate) struct LazyTls {
    state: TlsState,
    /// The other end as a word of errors.
    other: String,
}

enum TlsState {
    Opening(BoxFuture<'static, io::Result<OpenTls>>),
    Open(Box<OpenTls>),
    Failed,
}

impl LazyTls {
    /// Makes a stream whose handshake `opening` runs.
    pub(crate) fn new(
        opening: impl Future<Output = io::Result<OpenTls>> + Send + 'static,
        other: String,
    ) -> LazyTls {
        let late =
            format!("{other} did not complete the TLS handshake within {HANDSHAKE_TIMEOUT:?}");
        let bounded = async move {
            let opened = timeout(HANDSHAKE_TIMEOUT, opening).await;
            opened.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, late)))
        };
        LazyTls {
            state: TlsState::Opening(bounded.boxed()),
            other,
        }
    }

    fn poll_open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut OpenTls>>> {
        if let TlsState::Opening(opening) = &mut self.state {
            match ready!(opening.as_mut().poll(cx)) {
                Ok(stream) => self.state = TlsState::Open(Box::new(stream)),
                Err(error) => {
                    self.state = TlsState::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(match &mut self.state {
            TlsState::Open(stream) => Ok(Pin::new(stream)),
            TlsState::Opening(_) | TlsState::Failed => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for LazyTls {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(ready!(self.poll_open(cx))?.poll_read(cx, buf));
        // A caller learns here that the server refused its certificate: TLS 1.3 completes the
        // caller's handshake before the server has seen that certificate.
        Poll::Ready(match read {
            // The peer died, or closed without a farewell of TLS. What it says has marks of its own
            // ends, as without TLS, so a part that is missing is seen there.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
            read => read.map_err(|error| describe(error, &self.other)),
        })
    }
}

impl AsyncWrite for LazyTls {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_open(cx))?.poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_open(cx))?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.state {
            TlsState::Open(stream) => Pin::new(stream).poll_shutdown(cx),
            // Nothing was sent that an end could follow.
            TlsState::Opening(_) | TlsState::Failed => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::time::Instant;

    use super::*;

    /// HTTP/2 writes first, and then reads nothing before its bytes are gone: the time ends also
    /// for a stream that only writes.
    #[tokio::test(start_paused = true)]
    async fn stream_whose_peer_is_silent_fails_in_time() {
        for reads in [false, true] {
            let mut stream = LazyTls::new(pending(), "the other end".to_owned());
            let began = Instant::now();
            let failed = match reads {
                true => stream.read(&mut [0; 1]).await.map(drop),
                false => stream.write(&[0; 1]).await.map(drop),
            };
            let error = failed.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            let text = error.to_string();
            assert!(text.starts_with("the other end did not complete"), "{text}");
            assert_eq!(began.elapsed(), HANDSHAKE_TIMEOUT);
            let again = stream.read(&mut [0; 1]).await.unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::NotConnected);
        }
    }
}
