//! A bare service: the lower bound of the cost of a call on this machine at this moment.
//!
//! A scenario that judges a ratio of latencies shares the cores with its own load. Part of the
//! ratio is the price of that competition, which any service pays. This service does nothing, and
//! its calls pass between as many tasks, threads and sockets as those of the SDK: the caller, a
//! task for the connection, the kernel, a thread of the service, and back. Its ratio in the same
//! run is the floor against which the other ratio is judged.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

/// Bytes of a request and of a response: about those of a frame with one item.
const MESSAGE_BYTES: usize = 64;
/// Threads of the service: as many as an AllocSvr has on a machine with two cores.
const SERVICE_THREADS: usize = 2;
/// Maximum calls queued for the connection. A further call waits.
const QUEUED_CALLS_MAX: usize = 16;

/// The service and a connection to it. Dropping it ends its threads.
pub struct BareService {
    runtime: Option<Runtime>,
    calls: mpsc::Sender<oneshot::Sender<()>>,
}

impl BareService {
    /// Starts the service on its own threads of normal priority and connects to it.
    pub async fn start() -> BareService {
        let runtime = Builder::new_multi_thread()
            .worker_threads(SERVICE_THREADS)
            .thread_name("floor")
            .enable_all()
            .build()
            .expect("a runtime");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.expect("a free port").into_std();
        let listener = listener.expect("a listener of the system");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async move {
            // In the runtime whose threads must be woken up.
            let listener = TcpListener::from_std(listener).expect("a listener");
            let (stream, _) = listener.accept().await.expect("a connection");
            echo_messages(stream).await;
        });
        let stream = TcpStream::connect(address).await.expect("it listens");
        let (calls, waiting) = mpsc::channel(QUEUED_CALLS_MAX);
        tokio::spawn(drive_connection(stream, waiting));
        BareService {
            runtime: Some(runtime),
            calls,
        }
    }

    /// Makes one call and returns its latency.
    pub async fn time_call(&self) -> Duration {
        let began = Instant::now();
        let (answer, answered) = oneshot::channel();
        let sent = self.calls.send(answer).await;
        sent.expect("the connection is open");
        answered.await.expect("the call is answered");
        began.elapsed()
    }
}

impl Drop for BareService {
    fn drop(&mut self) {
        // The drop runs inside another runtime, where a blocking shutdown panics.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Sends every received message back.
async fn echo_messages(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("a socket option");
    let mut bytes = [0; MESSAGE_BYTES];
    while stream.read_exact(&mut bytes).await.is_ok() {
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Makes calls over one connection, one after the other.
async fn drive_connection(mut stream: TcpStream, mut waiting: mpsc::Receiver<oneshot::Sender<()>>) {
    stream.set_nodelay(true).expect("a socket option");
    let mut bytes = [7; MESSAGE_BYTES];
    while let Some(answer) = waiting.recv().await {
        let sent = stream.write_all(&bytes).await;
        let read = stream.read_exact(&mut bytes).await;
        if sent.is_err() || read.is_err() {
            return;
        }
        // The caller may have gone away.
        let _ = answer.send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn bare_service_answers_calls_also_when_started_again() {
        for _ in 0..2 {
            let service = BareService::start().await;
            for _ in 0..100 {
                assert!(service.time_call().await > Duration::ZERO);
            }
        }
    }
}
