//! Bounds of HTTP/2 itself. They are set here, so that no version of a library changes them.

use hyper::server::conn::http2;
use tonic::transport::Server;

/// Most bytes of the headers of a call; above it the call is rejected.
const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// Most calls of a connection that its caller canceled before the server took them; above it the
/// connection is closed.
const PENDING_RESETS_MAX: usize = 20;
/// Most calls of a connection that the server ended because of errors of its caller; above it the
/// connection is closed.
const LOCAL_RESETS_MAX: usize = 1_024;

/// Sets the bounds of HTTP/2 for a server.
pub fn limit_http2<L>(server: Server<L>) -> Server<L> {
    server
        .http2_max_header_list_size(HEADER_LIST_BYTES_MAX)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS_MAX))
        .http2_max_local_error_reset_streams(Some(LOCAL_RESETS_MAX))
}

/// Sets the bounds of HTTP/2 for one connection of a server.
pub fn limit_http2_connection<E>(builder: &mut http2::Builder<E>) -> &mut http2::Builder<E> {
    builder
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .max_pending_accept_reset_streams(PENDING_RESETS_MAX)
        .max_local_error_reset_streams(LOCAL_RESETS_MAX)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::time::Duration;

    use futures::{StreamExt, stream};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::timeout;
    use tonic::service::Routes;

    use super::*;

    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const GOAWAY: u8 = 7;
    const END_STREAM_AND_HEADERS: u8 = 5;
    const SETTING_HEADER_LIST_BYTES: [u8; 2] = [0, 6];
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];
    /// POST and http by index; the path and the authority as text.
    const HEADER_BLOCK: &[u8] = b"\x83\x86\x04\x02/a\x01\x01a";

    /// Connects to a server with the limits and without a service.
    async fn connect() -> DuplexStream {
        let (mut here, there) = duplex(1 << 20);
        let incoming = stream::iter([io::Result::Ok(there)]).chain(stream::pending());
        let router = limit_http2(Server::builder()).add_routes(Routes::default());
        tokio::spawn(router.serve_with_incoming(incoming));
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        here.write_all(preface).await.unwrap();
        here.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        here
    }

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// Returns the payload of the next frame of a kind.
    async fn next_payload(connection: &mut DuplexStream, kind: u8) -> Vec<u8> {
        let reading = async {
            loop {
                let mut head = [0; 9];
                connection.read_exact(&mut head).await.unwrap();
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                connection.read_exact(&mut payload).await.unwrap();
                if head[3] == kind {
                    return payload;
                }
            }
        };
        timeout(Duration::from_secs(10), reading).await.unwrap()
    }

    #[tokio::test]
    async fn server_announces_the_bound_of_headers() {
        let mut connection = connect().await;
        let settings = next_payload(&mut connection, SETTINGS).await;
        let bytes = HEADER_LIST_BYTES_MAX.to_be_bytes();
        let setting = [&SETTING_HEADER_LIST_BYTES[..], &bytes].concat();
        assert!(settings.chunks(6).any(|one| one == setting), "{settings:?}");
    }

    /// Schedule: a caller begins and cancels calls as fast as it can.
    #[tokio::test]
    async fn rapid_resets_close_the_connection() {
        let mut connection = connect().await;
        let mut flood = Vec::new();
        for call in 0..10_000u32 {
            let stream = 2 * call + 1;
            flood.extend(frame(HEADERS, END_STREAM_AND_HEADERS, stream, HEADER_BLOCK));
            flood.extend(frame(RST_STREAM, 0, stream, &CANCEL));
        }
        connection.write_all(&flood).await.unwrap();
        let reason = next_payload(&mut connection, GOAWAY).await;
        assert_eq!(reason[4..8], ENHANCE_YOUR_CALM);
    }
}
