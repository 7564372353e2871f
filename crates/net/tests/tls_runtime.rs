//! Where the handshakes of a server run.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

#[path = "support/pki.rs"]
mod pki;

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use pki::TestCa;
use seqsvr_net::tls::{TlsDir, TlsTransport};
use seqsvr_net::{ByteStream, ConnectionPeer, Listener, TcpTransport, Transport};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

const HOST: &str = "127.0.0.1";
const SERVER: &str = "seqsvr://test/store/s1";
const CLIENT: &str = "seqsvr://test/alloc/a1";

/// A connection that records the thread that first reads from it.
struct RecordingStream {
    inner: Box<dyn ByteStream>,
    reader: Option<Arc<Mutex<Vec<String>>>>,
}

impl AsyncRead for RecordingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(threads) = self.reader.take() {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            threads.lock().unwrap().push(name);
        }
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl AsyncWrite for RecordingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// TCP whose accepted connections record the threads that first read from them.
struct ThreadRecorder(Arc<Mutex<Vec<String>>>);

impl Transport for ThreadRecorder {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        TcpTransport.connect(address)
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        let (listening, threads) = (TcpTransport.listen(address), self.0.clone());
        Box::pin(async move {
            let inner = listening.await?;
            Ok(Box::new(RecordingListener { inner, threads }) as Box<dyn Listener>)
        })
    }
}

struct RecordingListener {
    inner: Box<dyn Listener>,
    threads: Arc<Mutex<Vec<String>>>,
}

impl Listener for RecordingListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        Box::pin(async {
            let (inner, peer) = self.inner.accept().await?;
            let reader = Some(self.threads.clone());
            Ok((Box::new(RecordingStream { inner, reader }) as _, peer))
        })
    }
}

/// Schedule: a StoreSvr listens on the threads of Raft, which a stranger's handshakes must not
/// occupy.
#[test]
fn handshakes_run_in_the_runtime_in_which_the_transport_was_made() {
    let runtime = |name| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name(name).enable_all();
        builder.build().unwrap()
    };
    let (general, raft) = (runtime("general"), runtime("raft"));
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let write = |name: &str, uri| ca.write(&pki.path().join(name), uri, &[HOST]);
    let dir = Arc::new(TlsDir::read(&write("server", SERVER)).unwrap());
    let threads = Arc::<Mutex<Vec<String>>>::default();
    let recorder = Arc::new(ThreadRecorder(threads.clone()));
    let server = general.block_on(async { TlsTransport::new(recorder, dir) });
    let (sender, address) = std::sync::mpsc::channel();
    let serving = raft.spawn(async move {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut listener = server.listen(any).await.unwrap();
        sender.send(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().await?;
        stream.read_exact(&mut [0; 2]).await?;
        stream.write_all(b"!").await?;
        stream.flush().await
    });
    let client = TlsTransport::from_dir(&write("client", CLIENT)).unwrap();
    general.block_on(async {
        let address = address.recv().unwrap().to_string();
        let mut stream = client.connect(address).await.unwrap();
        stream.write_all(b"ab").await.unwrap();
        stream.read_exact(&mut [0; 1]).await.unwrap();
    });
    raft.block_on(serving).unwrap().unwrap();
    assert_eq!(*threads.lock().unwrap(), ["general"]);
}
