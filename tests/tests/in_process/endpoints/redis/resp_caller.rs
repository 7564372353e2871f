//! A caller of the Redis protocol that sends bytes and reads whole answers.

use std::net::SocketAddr;

use seqsvr_net::ByteStream;
use seqsvr_test_support::wait::TEST_TIMEOUT;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A caller that sends bytes and reads answers.
pub(in crate::endpoints) struct RespCaller {
    stream: Box<dyn ByteStream>,
    read: Vec<u8>,
}

impl RespCaller {
    pub(in crate::endpoints) async fn connect(address: SocketAddr) -> RespCaller {
        RespCaller::over(Box::new(TcpStream::connect(address).await.unwrap()))
    }

    /// Creates a caller over a connection.
    pub(in crate::endpoints) fn over(stream: Box<dyn ByteStream>) -> RespCaller {
        RespCaller {
            stream,
            read: Vec::new(),
        }
    }

    pub(in crate::endpoints) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Returns the bytes of the next answer.
    pub(in crate::endpoints) async fn read_answer(&mut self) -> String {
        let answer = async {
            loop {
                if let Some(end) = find_answer_end(&self.read) {
                    let rest = self.read.split_off(end);
                    let answer = std::mem::replace(&mut self.read, rest);
                    return String::from_utf8_lossy(&answer).into_owned();
                }
                let n = self.stream.read_buf(&mut self.read).await.unwrap();
                assert!(
                    n > 0,
                    "closed after {:?}",
                    String::from_utf8_lossy(&self.read)
                );
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, answer)
            .await
            .expect("an answer")
    }

    /// Sends a line of words and returns its answer.
    pub(in crate::endpoints) async fn run(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes()).await;
        self.read_answer().await
    }

    /// Returns an answer that must be a number.
    pub(in crate::endpoints) async fn read_number(&mut self) -> u64 {
        let answer = self.read_answer().await;
        let digits = answer.strip_prefix(':').map(str::trim_end);
        digits
            .and_then(|n| n.parse().ok())
            .unwrap_or_else(|| panic!("{answer:?}"))
    }

    /// Returns all bytes until the other end closes.
    pub(in crate::endpoints) async fn read_to_end(mut self) -> String {
        let read = self.stream.read_to_end(&mut self.read);
        let read = tokio::time::timeout(TEST_TIMEOUT, read)
            .await
            .expect("an end");
        read.unwrap();
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

/// Returns the end of the first answer, if it is complete.
fn find_answer_end(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|two| two == b"\r\n")? + 2;
    let head = std::str::from_utf8(&bytes[1..line - 2]).unwrap();
    let number = || head.parse::<i64>().unwrap();
    let parts = match bytes[0] {
        b'+' | b'-' | b':' | b'_' => return Some(line),
        b'$' if number() < 0 => return Some(line),
        b'$' | b'=' => {
            let end = line + number() as usize + 2;
            return (bytes.len() >= end).then_some(end);
        }
        b'*' => number(),
        b'%' => 2 * number(),
        other => panic!("no answer begins with {:?}", char::from(other)),
    };
    (0..parts).try_fold(line, |at, _| {
        Some(at + find_answer_end(bytes.get(at..).filter(|b| !b.is_empty())?)?)
    })
}
