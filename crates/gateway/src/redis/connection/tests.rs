use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::*;
use crate::nobody::Nobody;

/// Serves a connection; the sockets between hold so many bytes.
fn served(about: &Arc<About>, sockets: usize) -> (DuplexStream, JoinHandle<&'static str>) {
    let (here, there) = duplex(sockets);
    let about = about.clone();
    let served = tokio::spawn(async move {
        let service = Service {
            sequence: &Nobody::default(),
            about: &about,
            items_max: 1_000,
            idle_max: Some(Duration::from_secs(100)),
            stopping: CancellationToken::new(),
        };
        let share = Share::new(([127, 0, 0, 1], 1).into());
        service
            .run(Box::new(here), share)
            .await
            .unwrap_or("an error")
    });
    (there, served)
}

fn about() -> Arc<About> {
    Arc::new(About::new(None))
}

async fn read(there: &mut DuplexStream, bytes: usize) -> String {
    let mut read = vec![0; bytes];
    there.read_exact(&mut read).await.unwrap();
    String::from_utf8(read).unwrap()
}

#[tokio::test(start_paused = true)]
async fn half_a_request_is_given_up_in_time() {
    let (mut there, served) = served(&about(), 1 << 16);
    there.write_all(b"PING\r\nPIN").await.unwrap();
    let began = Instant::now();
    let mut told = String::new();
    there.read_to_string(&mut told).await.unwrap();
    assert!(told.starts_with("+PONG\r\n-ERR Protocol error: the request was not received"));
    assert!(began.elapsed() >= RECEIVED_WITHIN && began.elapsed() < 2 * RECEIVED_WITHIN);
    assert_eq!(served.await.unwrap(), "a request took too long to arrive");
}

/// Each request arrives within a second, though at no moment the last one is whole.
#[tokio::test(start_paused = true)]
async fn a_stream_of_requests_is_not_taken_for_half_of_one() {
    let (mut there, _served) = served(&about(), 1 << 16);
    there.write_all(b"PI").await.unwrap();
    for _ in 0..40 {
        sleep(Duration::from_secs(1)).await;
        there.write_all(b"NG\r\nPI").await.unwrap();
        assert_eq!(read(&mut there, 7).await, "+PONG\r\n");
    }
}

/// The connection is closed in time even if the caller sends bytes.
#[tokio::test(start_paused = true)]
async fn who_takes_no_answers_is_closed_in_time() {
    let about = about();
    let (mut there, served) = served(&about, 1_000);
    let began = Instant::now();
    let text = "x".repeat(900);
    let sending = async {
        loop {
            if there
                .write_all(format!("ECHO {text}\r\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(100), sending)
        .await
        .expect("it is closed");
    assert_eq!(served.await.unwrap(), "it takes no answers");
    assert!(began.elapsed() >= STUCK_AFTER, "{:?}", began.elapsed());
    assert_eq!(about.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_nothing_is_closed_in_time() {
    let (mut there, served) = served(&about(), 1_000);
    let began = Instant::now();
    let talking = async {
        // An empty line is no command.
        while there.write_all(b"\r\n").await.is_ok() {
            sleep(Duration::from_secs(7)).await;
        }
    };
    timeout(Duration::from_secs(200), talking)
        .await
        .expect("it is closed");
    assert_eq!(served.await.unwrap(), "it was idle for too long");
    assert!(began.elapsed() >= Duration::from_secs(100));
}

/// A caller that is always somewhat behind, and large answers to short requests: sent bytes are not
/// kept, and bytes that are not sent are bounded.
#[tokio::test]
async fn what_a_slow_reader_makes_a_connection_hold_is_bounded() {
    let about = about();
    let (there, served) = served(&about, 50_000);
    let (mut from, mut to) = tokio::io::split(there);
    let sending = tokio::spawn(async move {
        for _ in 0..2_000 {
            to.write_all(&b"INFO\r\n".repeat(100)).await.unwrap();
        }
        to.shutdown().await.unwrap();
    });
    // The caller sends as many requests as it may before it reads any answer.
    let waiting = async {
        while about.held() < UNSENT_MAX / 2 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = timeout(Duration::from_secs(20), waiting).await;
    waited.expect("answers wait");
    let (mut all, mut most, mut bytes) = (0, 0, vec![0; 10_000]);
    loop {
        let n = from.read(&mut bytes).await.unwrap();
        if n == 0 {
            break;
        }
        all += n;
        most = most.max(about.held());
    }
    sending.await.unwrap();
    served.await.unwrap();
    assert!(all > 200_000 * 200, "{all} bytes of answers");
    assert!(most > 0 && most < 4 * UNSENT_MAX, "{most} bytes held");
    assert_eq!(about.held(), 0);
}

#[tokio::test]
async fn another_protocol_is_given_up_at_once() {
    let (mut there, served) = served(&about(), 1 << 16);
    there
        .write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nPING\r\n")
        .await
        .unwrap();
    let mut told = String::new();
    there.read_to_string(&mut told).await.unwrap();
    assert_eq!(told, "-ERR this is not HTTP\r\n");
    drop(there);
    served.await.unwrap();
}
