//! tokio as openraft's runtime, with randomness that the seed decides.

use std::future::Future;
use std::time::Duration;

use openraft::AsyncRuntime;
use openraft::impls::TokioRuntime as Tokio;
use rand::SeedableRng;
use rand::rngs::SmallRng;

/// openraft's runtime in a simulation.
#[derive(Debug)]
pub(crate) struct Runtime;

impl AsyncRuntime for Runtime {
    type JoinError = <Tokio as AsyncRuntime>::JoinError;
    type JoinHandle<R: Send + 'static> = <Tokio as AsyncRuntime>::JoinHandle<R>;
    type Sleep = <Tokio as AsyncRuntime>::Sleep;
    type Instant = <Tokio as AsyncRuntime>::Instant;
    type TimeoutError = <Tokio as AsyncRuntime>::TimeoutError;
    type Timeout<R, F: Future<Output = R> + Send> = <Tokio as AsyncRuntime>::Timeout<R, F>;
    type ThreadLocalRng = SmallRng;
    type Mpsc = <Tokio as AsyncRuntime>::Mpsc;
    type Watch = <Tokio as AsyncRuntime>::Watch;
    type Oneshot = <Tokio as AsyncRuntime>::Oneshot;
    type Mutex<X: Send + 'static> = <Tokio as AsyncRuntime>::Mutex<X>;

    fn spawn<F>(future: F) -> Self::JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Tokio::spawn(future)
    }

    fn sleep(duration: Duration) -> Self::Sleep {
        Tokio::sleep(duration)
    }

    fn sleep_until(deadline: Self::Instant) -> Self::Sleep {
        Tokio::sleep_until(deadline)
    }

    fn timeout<R, F: Future<Output = R> + Send>(
        duration: Duration,
        future: F,
    ) -> Self::Timeout<R, F> {
        Tokio::timeout(duration, future)
    }

    fn timeout_at<R, F: Future<Output = R> + Send>(
        deadline: Self::Instant,
        future: F,
    ) -> Self::Timeout<R, F> {
        Tokio::timeout_at(deadline, future)
    }

    fn is_panic(join_error: &Self::JoinError) -> bool {
        Tokio::is_panic(join_error)
    }

    fn thread_rng() -> Self::ThreadLocalRng {
        SmallRng::seed_from_u64(seqsvr_core::sim::draw_number("openraft"))
    }

    fn new(_threads: usize) -> Self {
        Runtime
    }

    fn block_on<F, R>(&mut self, _future: F) -> R
    where
        F: Future<Output = R>,
    {
        unreachable!("a simulation runs inside of a runtime")
    }
}
