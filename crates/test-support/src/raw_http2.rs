//! A caller below gRPC that writes HTTP/2 frames by hand. It can do what no gRPC library does: send
//! half of a request, read no answer, or hold ten thousand connections at little cost.

use std::io;

use seqsvr_net::{ByteStream, TcpTransport, Transport};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// Larger than any frame that a server sends with default settings.
const RECEIVED_FRAME_MAX: usize = 1 << 20;

/// Largest frame sent: the default maximum of a server.
const SENT_FRAME_MAX: usize = 1 << 14;

/// One connection.
pub struct RawHttp2 {
    stream: Box<dyn ByteStream>,
}

/// An event received from the server.
#[derive(Debug, PartialEq, Eq)]
pub enum Http2Event {
    /// Bytes of an answer.
    Data(usize),
    /// End of an answer.
    End,
    /// The server closes the connection, with this reason.
    GoAway(String),
}

impl RawHttp2 {
    /// Connects and sends the preface. The server may send `window` bytes of each answer without a
    /// window update; 0: none.
    pub async fn connect(address: &str, window: u32) -> io::Result<RawHttp2> {
        RawHttp2::over(TcpTransport.connect(address.to_owned()).await?, window).await
    }

    /// Sends the preface over a stream, as [`RawHttp2::connect`] does.
    pub async fn over(mut stream: Box<dyn ByteStream>, window: u32) -> io::Result<RawHttp2> {
        let mut preface = PREFACE.to_vec();
        // SETTINGS_INITIAL_WINDOW_SIZE.
        let setting = [&[0, 4][..], &window.to_be_bytes()].concat();
        preface.extend(encode_frame(SETTINGS, 0, 0, &setting));
        stream.write_all(&preface).await?;
        Ok(RawHttp2 { stream })
    }

    /// Begins a call on a stream (1, 3, 5, …) and sends these bytes of its message, whose full
    /// length is `length`.
    pub async fn start_call(
        &mut self,
        stream: u32,
        path: &str,
        length: usize,
        message: &[u8],
    ) -> io::Result<()> {
        // HPACK, nothing indexed: POST, http, and three literals.
        let mut head = vec![0x83, 0x86];
        head.extend([0x04, path.len() as u8]);
        head.extend(path.as_bytes());
        head.extend([0x01, 1, b'a']);
        head.extend([0x0f, 0x10, 16]);
        head.extend(b"application/grpc");
        head.extend([0x00, 2]);
        head.extend(b"te");
        head.push(8);
        head.extend(b"trailers");
        let mut bytes = encode_frame(HEADERS, END_HEADERS, stream, &head);
        let mut body = vec![0];
        body.extend((length as u32).to_be_bytes());
        body.extend(message);
        let mut pieces = body.chunks(SENT_FRAME_MAX).peekable();
        while let Some(piece) = pieces.next() {
            let is_last = pieces.peek().is_none() && message.len() == length;
            let flags = if is_last { END_STREAM } else { 0 };
            bytes.extend(encode_frame(DATA, flags, stream, piece));
        }
        self.stream.write_all(&bytes).await
    }

    /// Returns the next event. Answers settings and pings on the way. Fails when the connection is
    /// closed.
    pub async fn next_event(&mut self) -> io::Result<Http2Event> {
        loop {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            if length > RECEIVED_FRAME_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await?;
            let (kind, flags) = (head[3], head[4]);
            match kind {
                SETTINGS | PING if flags & ACK == 0 => {
                    let answer = match kind {
                        PING => &payload[..],
                        _ => &[],
                    };
                    self.stream
                        .write_all(&encode_frame(kind, ACK, 0, answer))
                        .await?;
                }
                GOAWAY => {
                    let why = payload.get(8..).unwrap_or_default();
                    return Ok(Http2Event::GoAway(
                        String::from_utf8_lossy(why).into_owned(),
                    ));
                }
                DATA | HEADERS if flags & END_STREAM != 0 => return Ok(Http2Event::End),
                DATA => return Ok(Http2Event::Data(length)),
                _ => {}
            }
        }
    }
}

fn encode_frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}
