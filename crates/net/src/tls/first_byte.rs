//! A check of the first byte of a connection, so that a caller without TLS gets an answer that it
//! can read.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::transport::ByteStream;

/// Content type of a TLS record that begins a handshake (RFC 8446, section 5.1).
pub(crate) const HANDSHAKE_RECORD: u8 = 22;

/// Error of a caller whose first byte begins no TLS handshake.
#[derive(Debug, thiserror::Error)]
#[error("the first byte of the connection begins no TLS handshake")]
pub(super) struct NoTls;

/// A stream whose first byte must begin a TLS handshake. Otherwise its read fails with [`NoTls`].
pub(super) struct TlsOnly {
    pub(super) io: Box<dyn ByteStream>,
    is_checked: bool,
}

impl TlsOnly {
    pub(super) fn new(io: Box<dyn ByteStream>) -> TlsOnly {
        TlsOnly {
            io,
            is_checked: false,
        }
    }
}

impl AsyncRead for TlsOnly {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        if !self.is_checked
            && let Some(first) = buf.filled().get(before)
        {
            if *first != HANDSHAKE_RECORD {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, NoTls)));
            }
            self.is_checked = true;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsOnly {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
