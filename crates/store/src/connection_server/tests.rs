use std::net::SocketAddr;

use futures::FutureExt;
use hyper::body::{Body as _, Bytes, Frame};
use seqsvr_net::tls::PeerIdentity;
use seqsvr_net::{
    ByteStream, ConnectionLimiter, ConnectionPeer, Listener, PeerCertificate, TcpTransport,
    Transport, accept_connections, connect_lazy,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};

use super::*;
use crate::grpc_server::call_rule;

const TEST_TIMEOUT: Duration = Duration::from_secs(40);

const STATUS: &str = "/seqsvr.v1.Admin/ClusterStatus";
const WATCH: &str = "/seqsvr.v1.Store/Watch";
const RENEWAL: &str = "/seqsvr.v1.Store/KeepAlive";
const APPEND: &str = "/seqsvr.v1.Raft/Append";

/// Returns after each call where the connection is served, and where that call runs.
fn serve_calls(place: &ConnectionPlace, paths: &[&str]) -> Vec<(bool, bool)> {
    let serve = |path: &&str| {
        place.record_call(is_core_call(call_rule, path, ConnectionCaller::Plaintext));
        if place.must_move() {
            place.enter();
        }
        assert!(!place.must_move());
        let is_in_core = place.is_in_core.load(Relaxed);
        (is_in_core, place.was_core_call.load(Relaxed))
    };
    paths.iter().map(serve).collect()
}

#[tokio::test]
async fn connection_is_served_in_core_from_its_first_core_call_on() {
    let core = Builder::new_multi_thread().worker_threads(1).build();
    let core = core.unwrap();
    let runtimes = StoreRuntimes::new(Some(core.handle().clone()));
    let place = ConnectionPlace::new(&runtimes);
    assert!(place.enter() && !place.must_move(), "it begins in the core");
    let (general, watched, renewed) = ((false, false), (true, false), (true, true));
    let paths = [STATUS, WATCH, RENEWAL, WATCH, STATUS, APPEND];
    let expected = [general, general, renewed, watched, watched, renewed];
    assert_eq!(serve_calls(&place, &paths), expected);
    core.shutdown_background();
}

#[tokio::test]
async fn connection_of_a_store_without_core_does_not_move() {
    let place = ConnectionPlace::new(&StoreRuntimes::new(None));
    place.enter();
    place.record_call(false);
    assert!(!place.must_move());
}

/// A request's body that its caller sends piece by piece.
struct PiecewiseBody(mpsc::Receiver<Bytes>);

impl hyper::body::Body for PiecewiseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let polled = self.0.poll_recv(cx);
        polled.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

/// A call whose request and answer are open.
struct OpenCall {
    /// Name of the threads on which the call runs.
    threads: String,
    pieces: mpsc::Sender<Bytes>,
    answer: Body,
}

impl OpenCall {
    /// Begins a call without a byte of its request, and waits for the head of its answer.
    async fn begin(channel: &mut Channel, path: &str) -> OpenCall {
        let (pieces, received) = mpsc::channel(1);
        let mut request = Request::new(Body::new(PiecewiseBody(received)));
        *request.uri_mut() = path.parse().unwrap();
        let answer = channel.ready().await.unwrap().call(request).await.unwrap();
        OpenCall {
            threads: answer.headers()["threads"].to_str().unwrap().to_owned(),
            pieces,
            answer: answer.into_body(),
        }
    }

    /// Sends bytes, and waits until they have come back.
    async fn echo(&mut self, piece: Bytes) {
        self.pieces.send(piece.clone()).await.unwrap();
        let mut received = Vec::new();
        while received.len() < piece.len() {
            let answer = &mut self.answer;
            let frame = poll_fn(|cx| Pin::new(&mut *answer).poll_frame(cx)).await;
            let frame = frame.expect("the call is open").unwrap();
            received.extend(frame.into_data().unwrap());
        }
        assert!(received == piece, "other bytes came back");
    }

    /// Ends the request, and waits for the end of the answer.
    async fn end(self) {
        let OpenCall {
            pieces, mut answer, ..
        } = self;
        drop(pieces);
        // The end may come with a frame without a byte.
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut answer).poll_frame(cx)).await {
            let rest = frame.unwrap().into_data().unwrap_or_default();
            assert!(rest.is_empty(), "more came back than was sent");
        }
    }
}

fn new_runtime(name: &str) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name(name).enable_all();
    builder.build().unwrap()
}

/// Answers each call with the bytes of its request, and the name of the threads on which it runs.
async fn echo_call(request: Request<Body>) -> Result<Response<Body>, Infallible> {
    let thread = std::thread::current();
    let mut answer = Response::new(request.into_body());
    let name = thread.name().unwrap().parse().unwrap();
    answer.headers_mut().insert("threads", name);
    Ok(answer)
}

/// A listener whose connections are those of the holder of one certificate.
struct CertifiedListener(Box<dyn Listener>, PeerCertificate);

impl Listener for CertifiedListener {
    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Box<dyn ByteStream>, ConnectionPeer)>> {
        async move {
            let (io, peer) = self.0.accept().await?;
            let certified = ConnectionPeer::certified(peer.remote(), self.1.clone());
            Ok((io, certified))
        }
        .boxed()
    }
}

/// Serves the calls that `test` makes by its channel, on a core and another runtime. The caller has
/// the certificate of `identity`; None: it has none.
fn with_server<T>(identity: Option<&str>, test: impl FnOnce(Channel) -> T)
where
    T: Future<Output = ()> + Send + 'static,
{
    let (core, general) = (new_runtime("core"), new_runtime("general"));
    let certificate = identity.map(|uri| {
        let identity = PeerIdentity::parse(uri).unwrap();
        PeerCertificate::new(identity, Vec::new())
    });
    let runtime = general.enter();
    let runtimes = StoreRuntimes::new(Some(core.handle().clone()));
    drop(runtime);
    let stop = CancellationToken::new();
    let (any_port, stopped) = ("127.0.0.1:0".parse().unwrap(), stop.clone());
    let (serving, channel) = general.block_on(async {
        let listener = TcpTransport.listen(any_port).await.unwrap();
        let listener = match certificate {
            Some(certificate) => Box::new(CertifiedListener(listener, certificate)),
            None => listener,
        };
        let address = format!("http://{}", listener.local_addr().unwrap());
        let incoming = accept_connections(listener, ConnectionLimiter::new("gRPC", 4));
        let service = tower::service_fn(echo_call);
        let serving = serve_connections(incoming, service, call_rule, 16, runtimes, stopped);
        let endpoint = Endpoint::from_shared(address).unwrap();
        let channel = connect_lazy(Arc::new(TcpTransport), &endpoint);
        (tokio::spawn(serving), channel)
    });
    let testing = test(channel);
    let tested = general.block_on(async { timeout(TEST_TIMEOUT, tokio::spawn(testing)).await });
    tested.expect("all calls are answered").unwrap();
    stop.cancel();
    general.block_on(serving).unwrap();
    core.shutdown_background();
    general.shutdown_background();
}

/// Schedule: the move to the core, while a call of another kind is open. If the connection lost a
/// wake-up or a byte on its way, one of its calls would not be answered any more.
#[test]
fn connection_with_open_watch_answers_it_and_renewals_after_its_move() {
    with_server(None, |mut channel| async move {
        let mut watch = OpenCall::begin(&mut channel, WATCH).await;
        assert_eq!(watch.threads, "general");
        watch.echo(Bytes::from_static(b"before the move")).await;
        let mut renewal = OpenCall::begin(&mut channel, RENEWAL).await;
        assert_eq!(renewal.threads, "core");
        // More than the windows of a call and of the connection.
        for n in 0..100 {
            renewal.echo(vec![n; 10_000].into()).await;
            watch.echo(vec![!n; 10_000].into()).await;
        }
        let mut status = OpenCall::begin(&mut channel, STATUS).await;
        assert_eq!(status.threads, "general");
        status.echo(Bytes::from_static(b"after the move")).await;
        for call in [watch, renewal, status] {
            call.end().await;
        }
    });
}

/// Schedule: a caller makes a call of Raft or a renewal that its role may not make. Its connection
/// would be served on the threads of Raft from then on.
#[test]
fn call_runs_in_core_only_if_its_caller_may_make_it() {
    for (who, calls) in [
        ("client/c1", [(APPEND, "general"), (RENEWAL, "general")]),
        ("admin/o1", [(APPEND, "general"), (RENEWAL, "general")]),
        ("alloc/a1", [(APPEND, "general"), (RENEWAL, "core")]),
        ("store/s1", [(APPEND, "core"), (RENEWAL, "general")]),
    ] {
        let identity = format!("seqsvr://p/{who}");
        with_server(Some(&identity), |mut channel| async move {
            for (path, threads) in calls {
                let call = OpenCall::begin(&mut channel, path).await;
                assert_eq!(call.threads, threads, "{who} {path}");
                call.end().await;
            }
        });
    }
}
