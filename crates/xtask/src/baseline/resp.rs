//! The least that a server of Redis's protocol can do: reads whole requests and answers each with a
//! number.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Serves until the process ends.
///
/// # Errors
/// The address cannot be listened on.
pub async fn serve_resp(listen: SocketAddr) -> io::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    let counter = Arc::new(AtomicU64::new(0));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let counter = counter.clone();
        // A connection that fails is its caller's business.
        tokio::spawn(async move { drop(answer(stream, &counter).await) });
    }
}

async fn answer(mut stream: TcpStream, counter: &AtomicU64) -> io::Result<()> {
    let (mut read, mut answers) = (Vec::with_capacity(16 << 10), Vec::new());
    loop {
        if stream.read_buf(&mut read).await? == 0 {
            return Ok(());
        }
        let mut begin = 0;
        while let Some(end) = end_of(&read[begin..]) {
            begin += end;
            let number = counter.fetch_add(1, Relaxed) + 1;
            answers.extend_from_slice(format!(":{number}\r\n").as_bytes());
        }
        read.drain(..begin);
        stream.write_all(&answers).await?;
        answers.clear();
    }
}

/// Where the first request ends, an array of bulk strings, if it is whole.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let (words, mut at) = number(bytes, 0)?;
    for _ in 0..words {
        let (length, begin) = number(bytes, at)?;
        at = begin + length + 2;
    }
    (bytes.len() >= at).then_some(at)
}

/// The number behind the first byte of a line, and where the next line begins.
fn number(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut value = 0;
    for (i, byte) in bytes.get(at + 1..)?.iter().enumerate() {
        match byte {
            b'0'..=b'9' => value = value * 10 + usize::from(byte - b'0'),
            _ => return Some((value, at + i + 3)),
        }
    }
    None
}
