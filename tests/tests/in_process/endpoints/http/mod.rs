//! The HTTP endpoint: bytes in, bytes out, over sockets, in front of real AllocSvrs.
//!
//! The files of this folder share the caller below.

mod bounds;
mod browsers;
mod metrics;
mod numbers;
mod openapi;
mod ready;
mod tags;

use std::net::SocketAddr;

use seqsvr_alloc::AllocServer;
use seqsvr_gateway::{HttpOptions, HttpServer, http};
use seqsvr_net::{ByteStream, LocalSequence, TcpTransport};
use seqsvr_test_support::in_process::any_port;
use seqsvr_test_support::wait::TEST_TIMEOUT;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A caller that sends bytes and reads answers.
pub(super) struct HttpCaller {
    stream: Box<dyn ByteStream>,
    read: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl HttpAnswer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl HttpCaller {
    async fn connect(address: SocketAddr) -> HttpCaller {
        HttpCaller::over(Box::new(TcpStream::connect(address).await.unwrap()))
    }

    pub(super) fn over(stream: Box<dyn ByteStream>) -> HttpCaller {
        HttpCaller {
            stream,
            read: Vec::new(),
        }
    }

    pub(super) async fn send(&mut self, bytes: &str) {
        self.stream.write_all(bytes.as_bytes()).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    pub(super) async fn read_answer(&mut self) -> HttpAnswer {
        let answer = async {
            loop {
                if let Some(answer) = self.take_complete_answer() {
                    return answer;
                }
                let n = self.stream.read_buf(&mut self.read).await.unwrap();
                let read = String::from_utf8_lossy(&self.read);
                assert!(n > 0, "closed after {read:?}");
            }
        };
        tokio::time::timeout(TEST_TIMEOUT, answer)
            .await
            .expect("an answer")
    }

    /// Returns the first answer, if it is complete.
    fn take_complete_answer(&mut self) -> Option<HttpAnswer> {
        let end = self.read.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap();
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        let whole = end + length.map_or(0, |n| n.parse().unwrap());
        if self.read.len() < whole {
            return None;
        }
        let body = String::from_utf8(self.read[end..whole].to_vec()).unwrap();
        self.read.drain(..whole);
        Some(HttpAnswer { status, head, body })
    }

    async fn get(&mut self, path: &str) -> HttpAnswer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
            .await;
        self.read_answer().await
    }

    async fn post(&mut self, path: &str, kind: &str, body: &str) -> HttpAnswer {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
        self.read_answer().await
    }

    /// Returns all bytes until the other end closes.
    pub(super) async fn read_to_end(mut self) -> String {
        let read = self.stream.read_to_end(&mut self.read);
        let read = tokio::time::timeout(TEST_TIMEOUT, read)
            .await
            .expect("an end");
        read.unwrap();
        String::from_utf8_lossy(&self.read).into_owned()
    }
}

pub(super) const JSON: &str = "application/json";
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

async fn open_endpoint(alloc: &AllocServer) -> HttpServer {
    open_endpoint_with(alloc, HttpOptions::new(any_port())).await
}

async fn open_endpoint_with(alloc: &AllocServer, options: HttpOptions) -> HttpServer {
    let paths = http::number_routes(alloc.sequence());
    HttpServer::start(options, &TcpTransport, paths)
        .await
        .unwrap()
}

pub(super) fn alloc_operator_routes(alloc: &AllocServer) -> http::Routes {
    http::operator_routes(alloc.clone(), alloc.sequence().access().clone())
}
