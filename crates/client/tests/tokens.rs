//! Calls with a token: what the server receives, where the token is not sent, and where it is not
//! written.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

mod fake;
#[path = "../../net/tests/support/pki.rs"]
mod pki;

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fake::{FakeAlloc, SharedNumbers, bind_listeners, routing_table};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use pki::TestCa;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use seqsvr_client::{Client, ClientOptions, ErrorKind, Reason};
use seqsvr_net::{ByteStream, ChannelPool, Listener, TcpTransport, TokenFile, Transport};
use tempfile::TempDir;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

const TOKENS: [&str; 2] = [
    "sq_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
    "sq_ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100",
];

/// A scripted AllocSvr under TLS. Its callers may have no certificate.
struct SecuredAlloc {
    alloc: FakeAlloc,
    dir: TempDir,
    ca: TestCa,
    /// For each connection, whether its caller showed a certificate.
    certificates: Arc<Mutex<Vec<bool>>>,
}

impl SecuredAlloc {
    async fn start(owner: &str) -> SecuredAlloc {
        let dir = tempfile::tempdir().unwrap();
        let ca = TestCa::new("test");
        let own = ca.write(&dir.path().join("own"), owner, &["127.0.0.1"]);
        let ([listener, front], [inner, address]) = bind_listeners().await;
        let table = routing_table(1, |_| Some((address.clone(), 1)));
        let shared = Arc::<SharedNumbers>::default();
        let alloc = FakeAlloc::start_behind(&address, listener, &shared, &table);
        let certificates = Arc::default();
        tokio::spawn(unwrap_tls(
            front,
            acceptor(&own),
            inner,
            Arc::clone(&certificates),
        ));
        SecuredAlloc {
            alloc,
            dir,
            ca,
            certificates,
        }
    }

    fn ca_file(&self) -> PathBuf {
        self.dir.path().join("own/ca.pem")
    }

    fn options(&self) -> ClientOptions {
        ClientOptions::new([self.alloc.address.clone()]).with_deadline(Duration::from_secs(5))
    }
}

/// Sends what arrives under TLS on to `inner`.
async fn unwrap_tls(
    front: TcpListener,
    acceptor: TlsAcceptor,
    inner: String,
    certificates: Arc<Mutex<Vec<bool>>>,
) {
    loop {
        let (stream, _) = front.accept().await.unwrap();
        let (acceptor, inner) = (acceptor.clone(), inner.clone());
        let certificates = certificates.clone();
        tokio::spawn(async move {
            let mut outer = acceptor.accept(stream).await?;
            let has_certificate = outer.get_ref().1.peer_certificates().is_some();
            certificates.lock().push(has_certificate);
            let mut inner = TcpStream::connect(inner).await?;
            copy_bidirectional(&mut outer, &mut inner).await
        });
    }
}

fn acceptor(own: &Path) -> TlsAcceptor {
    let certificate = |name: &str| CertificateDer::from_pem_file(own.join(name)).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate("ca.pem")).unwrap();
    let provider = Arc::new(default_provider());
    let callers = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone())
        .allow_unauthenticated()
        .build();
    let key = PrivateKeyDer::from_pem_file(own.join("key.pem")).unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_client_cert_verifier(callers.unwrap())
        .with_single_cert(vec![certificate("cert.pem")], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

fn write_token(path: &Path, content: &str, mode: u32) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn write_token_file(dir: &TempDir, token: &str) -> PathBuf {
    let path = dir.path().join("billing.token");
    write_token(&path, &format!("{token}\n"), 0o600);
    path
}

/// Makes a call of each kind: the first contact, a frame of a Pipe, and a unary call.
async fn make_calls(client: &Client) {
    let numbers = client.default_namespace();
    let first = numbers.next(7).await.unwrap().first;
    numbers.raise_to(7, first + 10).await.unwrap();
    client.admin().list_namespaces().await.unwrap();
}

/// The log, at all levels.
#[derive(Clone, Default)]
struct LogText(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogText {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn each_call_has_the_token_and_no_log_has_it() {
    let log = LogText::default();
    let writer = log.clone();
    // Of all threads: what the tests of other threads log is searched as well.
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone());
    tracing::subscriber::set_global_default(subscriber.finish()).unwrap();

    let server = SecuredAlloc::start("seqsvr://test/alloc/a1").await;
    let file = write_token_file(&server.dir, TOKENS[0]);
    let options = server.options().with_ca(server.ca_file());
    let options = options.with_token_file(&file);
    assert!(!format!("{options:?}").contains("sq_"), "{options:?}");
    let client = Client::new(options).unwrap();
    make_calls(&client).await;
    let seen = std::mem::take(&mut *server.alloc.authorizations.lock());
    assert!(seen.len() >= 4, "{seen:?}");
    let expected = format!("Bearer {}", TOKENS[0]);
    assert!(seen.iter().all(|value| *value == expected), "{seen:?}");

    // Another token in the file is that of the next call.
    write_token_file(&server.dir, TOKENS[1]);
    client.admin().list_namespaces().await.unwrap();
    let seen = server.alloc.authorizations.lock().pop();
    assert_eq!(seen, Some(format!("Bearer {}", TOKENS[1])));
    assert!(!server.certificates.lock().contains(&true));

    let log = String::from_utf8(log.0.lock().clone()).unwrap();
    assert!(log.contains("Headers"), "frames of HTTP/2 are in it");
    for token in TOKENS {
        assert!(!log.contains(&token[3..20]), "the log has the token");
    }
}

#[tokio::test]
async fn certificate_and_token_are_both_shown() {
    let server = SecuredAlloc::start("seqsvr://test/alloc/a1").await;
    let file = write_token_file(&server.dir, TOKENS[0]);
    let uri = "seqsvr://test/client/billing";
    let own = server.ca.write(&server.dir.path().join("client"), uri, &[]);
    let options = server.options().with_tls_dir(&own);
    let client = Client::new(options.clone().with_token_file(&file)).unwrap();
    make_calls(&client).await;
    assert!(!server.certificates.lock().contains(&false));
    let seen = server.alloc.authorizations.lock().clone();
    let expected = format!("Bearer {}", TOKENS[0]);
    assert!(seen.iter().all(|value| *value == expected), "{seen:?}");

    let error = Client::new(options.with_ca(server.ca_file()))
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("give one of them"), "{error}");
}

/// Schedule: an address is that of a program with a certificate of the CA that is no server, of a
/// server of another CA, or of one for another host. None of them gets the token.
#[tokio::test]
async fn token_is_sent_to_no_server_that_the_ca_does_not_vouch_for() {
    let other = TestCa::new("test");
    for (owner, is_of_other_ca, host, words) in [
        ("seqsvr://test/client/x", false, "127.0.0.1", "no server"),
        ("seqsvr://test/alloc/a1", true, "127.0.0.1", "is of no CA"),
        (
            "seqsvr://test/alloc/a1",
            false,
            "localhost",
            "not for localhost",
        ),
    ] {
        let server = SecuredAlloc::start(owner).await;
        let ca = match is_of_other_ca {
            true => other
                .write(&server.dir.path().join("other"), owner, &[])
                .join("ca.pem"),
            false => server.ca_file(),
        };
        let port = server.alloc.address.rsplit(':').next().unwrap();
        let options = ClientOptions::new([format!("{host}:{port}")])
            .with_deadline(Duration::from_secs(2))
            .with_ca(ca)
            .with_token_file(write_token_file(&server.dir, TOKENS[0]));
        let client = Client::new(options).unwrap();
        let error = client.default_namespace().next(7).await.unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(*server.alloc.authorizations.lock(), Vec::<String>::new());
    }
}

/// A network on which one machine answers at every address.
struct OneMachine {
    address: String,
    called: Arc<Mutex<Vec<String>>>,
}

impl Transport for OneMachine {
    fn connect(&self, address: String) -> BoxFuture<'static, io::Result<Box<dyn ByteStream>>> {
        self.called.lock().push(address);
        TcpTransport.connect(self.address.clone())
    }

    fn listen(&self, _: SocketAddr) -> BoxFuture<'static, io::Result<Box<dyn Listener>>> {
        async { unreachable!("it is only called") }.boxed()
    }
}

/// Schedule: a server on loopback, without TLS, has a routing table with the address of another
/// machine.
#[tokio::test]
async fn token_leaves_the_machine_under_tls_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = write_token_file(&dir, TOKENS[0]);
    for address in ["10.0.0.7", "a1.internal:7700", "[fd00::1]:7700"] {
        let options = ClientOptions::new(["127.0.0.1:7700", address]).with_token_file(&file);
        let error = Client::new(options).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.message().contains("without TLS"), "{error}");
        assert!(error.message().contains("`--ca`"), "{error}");
    }

    let ([listener], [address]) = bind_listeners().await;
    let table = routing_table(1, |_| Some(("10.0.0.7:7700".to_owned(), 1)));
    let alloc = FakeAlloc::start(listener, &Arc::default(), &table);
    let called = Arc::<Mutex<Vec<String>>>::default();
    let network = OneMachine {
        address: address.clone(),
        called: called.clone(),
    };
    let channels = ChannelPool::with_transport(Arc::new(network));
    let channels = channels.with_token_file(TokenFile::new(&file));
    let options = ClientOptions::new([address.clone()]).with_deadline(Duration::from_secs(1));
    let client = Client::over(channels, options).unwrap();
    let numbers = client.default_namespace();
    numbers.next(7).await.unwrap_err();
    // The server on loopback may forward it.
    numbers.raise_to(7, 9).await.unwrap();
    assert!(
        called.lock().iter().all(|other| *other == address),
        "{called:?}"
    );
    let seen = alloc.authorizations.lock().clone();
    let expected = format!("Bearer {}", TOKENS[0]);
    assert!(
        !seen.is_empty() && seen.iter().all(|value| *value == expected),
        "{seen:?}"
    );
}

#[tokio::test]
async fn unusable_token_file_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("billing.token");
    let ([listener], [address]) = bind_listeners().await;
    let table = routing_table(1, |_| Some((address.clone(), 1)));
    let alloc = FakeAlloc::start(listener, &Arc::default(), &table);
    let options = ClientOptions::new([address.clone()]).with_token_file(&file);
    let options = options.with_deadline(Duration::from_secs(1));
    let why = |options: &ClientOptions| {
        let error = Client::new(options.clone()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    };
    assert!(why(&options).contains("No such file"), "{}", why(&options));
    write_token(&file, "", 0o600);
    assert!(why(&options).contains("it is empty"), "{}", why(&options));
    write_token(&file, &format!("{}0\n", TOKENS[0]), 0o600);
    assert!(
        why(&options).contains("it is no token"),
        "{}",
        why(&options)
    );
    assert!(
        !why(&options).contains(&TOKENS[0][..20]),
        "{}",
        why(&options)
    );
    write_token(&file, TOKENS[0], 0o644);
    assert!(why(&options).contains("chmod 600"), "{}", why(&options));

    // One that is being replaced delays the calls, at most to their deadline.
    write_token(&file, TOKENS[0], 0o600);
    let client = Client::new(options).unwrap();
    fs::remove_file(&file).unwrap();
    let numbers = client.default_namespace();
    let error = numbers.next(7).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.reason()),
        (ErrorKind::NotPermitted, Reason::Unauthenticated)
    );
    assert!(
        error.is_retryable() && error.message().contains("No such file"),
        "{error}"
    );
    assert_eq!(*alloc.authorizations.lock(), Vec::<String>::new());
    let again = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        write_token(&file, TOKENS[1], 0o600);
    };
    let (next, ()) = tokio::join!(numbers.next(7), again);
    assert_eq!(next.unwrap().first, 1);
}
