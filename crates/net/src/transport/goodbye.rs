//! The reason that a server sends to a caller before it closes the connection.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::transport::ByteStream;

/// Maximum time for a rejected caller to read the reason; then its connection is closed.
pub const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends these bytes, and waits until the caller has closed the connection. The caller bounds the
/// time.
///
/// # Errors
/// The connection is lost; the caller sees it closed.
pub async fn say_goodbye(mut io: Box<dyn ByteStream>, bytes: &[u8]) -> io::Result<()> {
    io.write_all(bytes).await?;
    io.shutdown().await?;
    // Closing with unread bytes would reset the connection, and the caller would lose the reason.
    let mut rest = [0; 1024];
    while io.read(&mut rest).await? > 0 {}
    Ok(())
}

/// Returns HTTP/2 SETTINGS (a server's first frame, empty) and GOAWAY with ENHANCE_YOUR_CALM (RFC
/// 9113, sections 6.5, 6.8 and 7), which gRPC clients show as RESOURCE_EXHAUSTED.
pub(crate) fn go_away_frames(why: &str) -> Vec<u8> {
    const ENHANCE_YOUR_CALM: u32 = 11;
    frames(ENHANCE_YOUR_CALM, why)
}

/// Returns the same with INADEQUATE_SECURITY, which gRPC clients show as PERMISSION_DENIED.
pub(crate) fn insecure_frames(why: &str) -> Vec<u8> {
    const INADEQUATE_SECURITY: u32 = 12;
    frames(INADEQUATE_SECURITY, why)
}

fn frames(code: u32, why: &str) -> Vec<u8> {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GOAWAY: u8 = 7;
    let length = (8 + why.len()) as u32;
    let mut bytes = SETTINGS.to_vec();
    bytes.extend_from_slice(&length.to_be_bytes()[1..]);
    bytes.extend_from_slice(&[GOAWAY, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&0u32.to_be_bytes());
    bytes.extend_from_slice(&code.to_be_bytes());
    bytes.extend_from_slice(why.as_bytes());
    bytes
}
