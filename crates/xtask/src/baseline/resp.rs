//! The baseline server of the Redis protocol: it reads whole requests and responses each with a
//! number.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves the baseline server of the Redis protocol until the process ends.
///
/// # Errors
/// The server cannot listen on the address.
pub async fn serve_resp(listen: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let counter = Arc::new(AtomicU64::new(0));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let counter = counter.clone();
        // An error ends its connection only; the client reports it.
        tokio::spawn(async move { drop(serve_connection(stream, &counter).await) });
    }
}

async fn serve_connection(mut stream: TcpStream, counter: &AtomicU64) -> io::Result<()> {
    let (mut received, mut responses) = (Vec::with_capacity(16 << 10), Vec::new());
    loop {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(());
        }
        let mut begin = 0;
        while let Some(length) = request_length(&received[begin..]) {
            begin += length;
            let number = counter.fetch_add(1, Relaxed) + 1;
            responses.extend_from_slice(format!(":{number}\r\n").as_bytes());
        }
        received.drain(..begin);
        stream.write_all(&responses).await?;
        responses.clear();
    }
}

/// Returns the length of the first request, an array of bulk strings; None if it is incomplete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let (words, mut end) = parse_count(bytes, 0)?;
    for _ in 0..words {
        let (length, begin) = parse_count(bytes, end)?;
        end = begin + length + 2;
    }
    (bytes.len() >= end).then_some(end)
}

/// Returns the number after the first byte of the line at `begin`, and the begin of the next line;
/// None if the line is incomplete.
fn parse_count(bytes: &[u8], begin: usize) -> Option<(usize, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.get(begin + 1..)?.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + usize::from(byte - b'0'),
            _ => return Some((value, begin + i + 3)),
        }
    }
    None
}
