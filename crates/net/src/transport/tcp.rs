//! The machine's own network.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
};
use tokio::net::{TcpListener, TcpStream};

use crate::peer::ConnectionPeer;
use crate::transport::open_files::describe_connect_error;
use crate::transport::{ByteStream, Listener, PendingConnection, Transport};

/// TCP, without Nagle's delay.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpTransport;

impl Transport for TcpTransport {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        async move {
            let stream = TcpStream::connect(address).await;
            let stream = stream.map_err(describe_connect_error)?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn ByteStream>)
        }
        .boxed()
    }

    fn listen(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        }
        .boxed()
    }
}

impl Listener for TcpListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        TcpListener::local_addr(self)
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        async move {
            let (stream, remote) = accept(self).await?;
            let peer = ConnectionPeer::plaintext(remote);
            Ok((Box::new(stream) as Box<dyn ByteStream>, peer))
        }
        .boxed()
    }

    fn accept_for_any(&mut self) -> BoxFuture<'_, io::Result<PendingConnection>> {
        async move {
            let (stream, remote) = accept(self).await?;
            let local = stream.local_addr()?;
            let stream = stream.into_std()?;
            let open = move || Ok(Box::new(TcpStream::from_std(stream)?) as Box<dyn ByteStream>);
            Ok(PendingConnection {
                open: Box::new(open),
                local,
                peer: ConnectionPeer::plaintext(remote),
            })
        }
        .boxed()
    }
}

async fn accept(listener: &TcpListener) -> io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    stream.set_nodelay(true)?;
    enable_keep_alive(&stream)?;
    Ok((stream, peer))
}

/// Makes the system detect within a quarter of an hour that the other end is gone: some protocols
/// have no pings.
fn enable_keep_alive(stream: &TcpStream) -> io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, Duration::from_secs(300))?;
    set_tcp_keepintvl(stream, Duration::from_secs(60))?;
    set_tcp_keepcnt(stream, 5)?;
    Ok(())
}
