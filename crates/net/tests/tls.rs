//! What both ends of a connection under TLS say when it does not come about, and who a caller is.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy.toml allows it only inside test functions"
)]

#[path = "support/pki.rs"]
mod pki;

use std::fs::{self, Permissions};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use pki::TestCa;
use rcgen::date_time_ymd;
use seqsvr_net::tls::{CaTransport, Role, TlsDir, TlsTransport};
use seqsvr_net::{
    ByteStream, ConnectionCaller, ConnectionPeer, Listener, TcpTransport, Transport, for_role,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const HOST: &str = "127.0.0.1";
const SERVER: &str = "seqsvr://test/store/s1";
const CLIENT: &str = "seqsvr://test/alloc/a1";

fn tls(dir: &Path) -> Arc<dyn Transport> {
    TlsTransport::from_dir(dir).unwrap()
}

fn tcp() -> Arc<dyn Transport> {
    Arc::new(TcpTransport)
}

/// What both ends of one connection saw.
struct Outcome {
    client: Result<(), String>,
    server: Result<ConnectionPeer, String>,
    log: String,
}

/// Connects, sends two bytes and receives one answer.
async fn connect(client: &Arc<dyn Transport>, server: &Arc<dyn Transport>) -> Outcome {
    connect_as(client, server, HOST).await
}

async fn connect_as(
    client: &Arc<dyn Transport>,
    server: &Arc<dyn Transport>,
    host: &str,
) -> Outcome {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = server.listen(any).await.unwrap();
    let address = format!("{host}:{}", listener.local_addr().unwrap().port());
    let calling = async {
        let mut stream = client.connect(address).await?;
        stream.write_all(b"hi").await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        match &answer[..] {
            b"!" => Ok(()),
            other => Err(io::Error::other(String::from_utf8_lossy(other))),
        }
    };
    let (client, server) = tokio::join!(calling, serve(&mut listener));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let text = |error: io::Error| error.to_string();
    Outcome {
        client: client.map_err(text),
        server: server.map_err(text),
        log,
    }
}

async fn serve(listener: &mut Box<dyn Listener>) -> io::Result<ConnectionPeer> {
    let (mut stream, peer): (Box<dyn ByteStream>, ConnectionPeer) = listener.accept().await?;
    stream.read_exact(&mut [0; 2]).await?;
    stream.write_all(b"!").await?;
    stream.shutdown().await?;
    // The other end closes when it has the answer.
    let _ = stream.read(&mut [0; 1]).await;
    Ok(peer)
}

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn caller_is_known_by_its_one_uri() {
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let write = |name: &str, uris: &[&str]| {
        let dir = ca.write_with(&pki.path().join(name), uris, &[HOST], |_| {});
        tls(&dir)
    };
    let server = write("server", &[SERVER]);
    let known = connect(&write("client", &[CLIENT]), &server).await;
    known.client.unwrap();
    let peer = known.server.unwrap();
    let ConnectionCaller::Certified(certificate) = peer.caller() else {
        panic!("{peer:?}");
    };
    assert_eq!(certificate.identity().to_string(), CLIENT);
    assert_eq!(certificate.check_address("127.0.0.1:7700"), Ok(()));
    let error = certificate.check_address("127.0.0.2:7700").unwrap_err();
    assert!(
        error.ends_with("is for 127.0.0.1, not for 127.0.0.2"),
        "{error}"
    );
    let plain = connect(&tcp(), &tcp()).await.server.unwrap();
    assert_eq!(plain.caller(), ConnectionCaller::Plaintext);
}

/// A caller that has only the CA: it knows whom it calls, and shows nothing itself.
async fn connect_without_certificate(dir: &Path, address: SocketAddr) -> io::Result<String> {
    let network = CaTransport::from_file(&dir.join("ca.pem")).unwrap();
    let mut stream = network.connect(address.to_string()).await?;
    stream.write_all(b"hi").await?;
    stream.flush().await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Schedule: a server with principals accepts callers without a certificate. They are not known,
/// and do not count as callers without TLS, which may do everything.
#[tokio::test]
async fn server_may_accept_callers_without_certificate_and_knows_none_of_them() {
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let write = |name: &str, ca: &TestCa, uri: &str| ca.write(&pki.path().join(name), uri, &[HOST]);
    let dir = write("server", &ca, SERVER);
    let transport = || TlsTransport::new(tcp(), Arc::new(TlsDir::read(&dir).unwrap()));
    let open: Arc<dyn Transport> = Arc::new(transport().with_optional_certificates());
    let closed: Arc<dyn Transport> = Arc::new(transport());
    for (server, is_open) in [(&open, true), (&closed, false)] {
        let mut listener = server.listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let calling = connect_without_certificate(&dir, address);
        let (client, served) = tokio::join!(calling, serve(&mut listener));
        if !is_open {
            let refused = served.unwrap_err().to_string();
            assert!(refused.contains("certificate"), "{refused}");
            client.unwrap_err();
            continue;
        }
        assert_eq!(client.unwrap(), "!");
        let peer = served.unwrap();
        let caller = peer.caller();
        assert!(
            matches!(caller, ConnectionCaller::Nameless(_)),
            "{caller:?}"
        );
        let error = caller.certificate().unwrap_err();
        assert!(error.message.contains("no certificate"), "{error}");
    }
    // Certificates count as before, and those of another CA are refused.
    let known = connect(&tls(&write("client", &ca, CLIENT)), &open).await;
    assert!(matches!(
        known.server.unwrap().caller(),
        ConnectionCaller::Certified(_)
    ));
    let other = TestCa::new("test");
    let stranger = write("stranger", &other, CLIENT);
    let cas = ["server", "stranger"].map(|name| fs::read(pki.path().join(name).join("ca.pem")));
    let cas = cas.map(Result::unwrap).concat();
    fs::write(stranger.join("ca.pem"), cas).unwrap();
    let refused = connect(&tls(&stranger), &open).await.server.unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
}

/// Each case fails at both ends with words that say why.
#[tokio::test]
async fn failed_connections_are_described_at_both_ends() {
    let pki = tempfile::tempdir().unwrap();
    // Of the same name, as when an operator has made a new one, and of another name.
    let (ca, other, third) = (
        TestCa::new("test"),
        TestCa::new("test"),
        TestCa::new("third"),
    );
    let mut dirs = 0;
    let mut write = |ca: &TestCa, uri: &str, hosts: &[&str], years: (i32, i32)| {
        dirs += 1;
        let dir = pki.path().join(dirs.to_string());
        ca.write_with(&dir, &[uri], hosts, |params| {
            params.not_before = date_time_ymd(years.0, 1, 1);
            params.not_after = date_time_ymd(years.1, 1, 1);
        })
    };
    let valid = (2020, 2090);
    let server = tls(&write(&ca, SERVER, &[HOST], valid));
    let client = tls(&write(&ca, CLIENT, &[], valid));
    let of_ca_only = |ca: &TestCa, dir: &str| {
        let dir = ca.write(&pki.path().join(dir), CLIENT, &[]);
        CaTransport::from_file(&dir.join("ca.pem")).unwrap()
    };
    let uncertified = of_ca_only(&ca, "uncertified");
    let of_other_ca = tls(&write(&other, CLIENT, &[], valid));
    let of_third_ca = tls(&write(&third, CLIENT, &[], valid));
    let for_other_host = tls(&write(&ca, SERVER, &["store1.internal", "10.0.0.1"], valid));
    let is_admin = tls(&write(&ca, "seqsvr://test/admin/x", &[HOST], valid));
    let elsewhere = tls(&write(&ca, "seqsvr://else/store/s1", &[HOST], valid));

    // One that trusts the server, and is of a CA that the server does not know. TLS 1.3 completes
    // its handshake before the server has seen the certificate.
    let dir = write(&third, CLIENT, &[], valid);
    let both = [&dir, &write(&ca, CLIENT, &[], valid)]
        .map(|dir| std::fs::read_to_string(dir.join("ca.pem")).unwrap());
    std::fs::write(dir.join("ca.pem"), both.concat()).unwrap();
    let is_unknown = tls(&dir);

    for (client, server, client_says, server_says) in [
        (&client, &server, None, None),
        (
            &tcp(),
            &server,
            Some("TLS only"),
            Some("speaks no TLS; give it a directory"),
        ),
        (
            &client,
            &tcp(),
            Some("speaks no TLS; start it with `--tls-dir`"),
            None,
        ),
        (
            &of_third_ca,
            &server,
            Some("is of no CA in `ca.pem`"),
            Some("refused this certificate: its CA is not"),
        ),
        (
            &of_other_ca,
            &server,
            Some("is of no CA in `ca.pem`"),
            Some("refused this certificate: its CA is not"),
        ),
        (
            &client,
            &for_other_host,
            Some("is for store1.internal, 10.0.0.1, not for 127.0.0.1"),
            Some("refused this certificate: it is not for the name"),
        ),
        (
            &is_unknown,
            &server,
            Some("refused this certificate: its CA is not in the `ca.pem`"),
            Some("is of no CA in `ca.pem`"),
        ),
        (
            &client,
            &is_admin,
            Some("is seqsvr://test/admin/x, no server"),
            None,
        ),
        (
            &client,
            &elsewhere,
            Some("is of another domain than \"test\""),
            None,
        ),
        (
            &uncertified,
            &server,
            Some("refused this certificate: there is none"),
            Some("has no certificate; give it one of this CA"),
        ),
        (
            &of_ca_only(&third, "stranger"),
            &server,
            Some("is of no CA in `ca.pem`"),
            None,
        ),
        (
            &uncertified,
            &for_other_host,
            Some("is for store1.internal, 10.0.0.1, not for 127.0.0.1"),
            None,
        ),
        (
            &uncertified,
            &is_admin,
            Some("is seqsvr://test/admin/x, no server"),
            None,
        ),
        (
            &for_role(&uncertified, Role::Alloc),
            &server,
            Some("is seqsvr://test/store/s1, no alloc"),
            None,
        ),
        (
            &for_role(&client, Role::Alloc),
            &server,
            Some("is seqsvr://test/store/s1, no alloc"),
            None,
        ),
    ] {
        let outcome = connect(client, server).await;
        assert_says(&outcome.client, client_says);
        if server_says.is_some() {
            assert_says(&outcome.server.map(drop), server_says);
            assert!(outcome.log.contains("WARN"), "{}", outcome.log);
        }
    }
}

fn assert_says(seen: &Result<(), String>, expected: Option<&str>) {
    match (seen, expected) {
        (Ok(()), None) => {}
        (Err(text), Some(words)) => assert!(text.contains(words), "{text:?}, not {words:?}"),
        _ => panic!("{seen:?}, not {expected:?}"),
    }
}

/// Schedule: strangers connect and say nothing. Another caller is served nevertheless.
#[tokio::test]
async fn silent_connections_stop_no_other() {
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let server = tls(&ca.write(&pki.path().join("s"), SERVER, &[HOST]));
    let client = tls(&ca.write(&pki.path().join("c"), CLIENT, &[]));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut listener = server.listen(any).await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut silent = Vec::new();
    for _ in 0..100 {
        let (near, far) = tokio::join!(TcpTransport.connect(address.clone()), listener.accept());
        let mut far = far.unwrap().0;
        let serving = tokio::spawn(async move { far.read(&mut [0; 1]).await });
        silent.push((near.unwrap(), serving));
    }
    let calling = async {
        let mut stream = client.connect(address).await.unwrap();
        stream.write_all(b"hi").await.unwrap();
        stream.read_exact(&mut [0; 1]).await.unwrap();
    };
    let (served, ()) = tokio::join!(serve(&mut listener), calling);
    assert!(matches!(
        served.unwrap().caller(),
        ConnectionCaller::Certified(_)
    ));
    assert!(silent.iter().all(|(_, serving)| !serving.is_finished()));
}

/// A directory that others may change, or that peers would refuse, is not used.
#[test]
fn directory_is_checked_as_a_peer_would() {
    let pki = tempfile::tempdir().unwrap();
    let (ca, other) = (TestCa::new("test"), TestCa::new("test"));
    let new_dir = |name: &str| ca.write(&pki.path().join(name), SERVER, &[HOST, "s1.internal"]);
    let rejection = |dir: &Path| TlsDir::read(dir).unwrap_err().to_string();

    let good = TlsDir::read(&new_dir("good")).unwrap();
    assert_eq!(good.identity().to_string(), SERVER);
    good.check_role(Role::Store).unwrap();
    for host in [HOST, "s1.internal", "S1.Internal"] {
        good.check_host(host).unwrap();
    }
    let error = good.check_host("10.0.0.9").unwrap_err().to_string();
    assert!(
        error.contains("is for 127.0.0.1, s1.internal") || error.contains("s1.internal, 127.0.0.1"),
        "{error}"
    );
    let error = good.check_role(Role::Alloc).unwrap_err().to_string();
    assert!(error.contains("seqsvr cert alloc"), "{error}");

    let dir = new_dir("missing");
    std::fs::remove_file(dir.join("key.pem")).unwrap();
    assert!(rejection(&dir).contains("key.pem"));
    let dir = new_dir("modes");
    for (name, mode, words) in [
        ("key.pem", 0o640, "read or change"),
        ("key.pem", 0o644, "read or change"),
        ("ca.pem", 0o664, "other users may change it"),
        ("", 0o777, "other users may change it"),
    ] {
        let path = dir.join(name);
        let before = std::fs::metadata(&path).unwrap().permissions();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        // Root's group may read a key of root.
        if (name, mode) == ("key.pem", 0o640) && rustix::process::geteuid().is_root() {
            TlsDir::read(&dir).unwrap();
        } else {
            let error = rejection(&dir);
            assert!(error.contains(words), "{name} {mode:o}: {error}");
        }
        std::fs::set_permissions(&path, before).unwrap();
    }
    TlsDir::read(&dir).unwrap();

    let dir = new_dir("swapped");
    std::fs::copy(new_dir("other").join("key.pem"), dir.join("key.pem")).unwrap();
    assert!(rejection(&dir).contains("not the key of cert.pem"));
    let dir = new_dir("foreign");
    let foreign = other.write(&pki.path().join("foreign-ca"), SERVER, &[HOST]);
    std::fs::copy(foreign.join("ca.pem"), dir.join("ca.pem")).unwrap();
    assert!(rejection(&dir).contains("is of no CA in `ca.pem`"));
    let dir = new_dir("garbage");
    std::fs::write(dir.join("cert.pem"), "no PEM").unwrap();
    assert!(rejection(&dir).contains("no PEM"));
    let change = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    let dir = ca.write_with(&pki.path().join("old"), &[SERVER], &[HOST], change);
    assert!(rejection(&dir).contains("expired at 2021-01-01T00:00:00Z"));
    let change = |params: &mut rcgen::CertificateParams| {
        params.not_before = date_time_ymd(2090, 1, 1);
        params.not_after = date_time_ymd(2091, 1, 1);
    };
    let dir = ca.write_with(&pki.path().join("new"), &[SERVER], &[HOST], change);
    assert!(rejection(&dir).contains("valid from 2090-01-01T00:00:00Z on"));
    let dir = ca.write_with(&pki.path().join("two"), &[SERVER, CLIENT], &[HOST], |_| {});
    assert!(rejection(&dir).contains("2 URIs"));
}

/// Schedule: an operator copies all of another directory into `ca.pem`, or leaves a CA there whose
/// time is over. The holder of that key signs certificates of any role, and they are accepted.
#[test]
fn only_valid_ca_certificates_are_trusted() {
    let pki = tempfile::tempdir().unwrap();
    let ca = TestCa::new("test");
    let valid_in = |from: i32, to: i32| {
        TestCa::new_with("test", move |params| {
            params.not_before = date_time_ymd(from, 1, 1);
            params.not_after = date_time_ymd(to, 1, 1);
        })
    };
    let write = |ca: &TestCa, name: &str| ca.write(&pki.path().join(name), SERVER, &[HOST]);
    let is_leaf = "is not that of a CA";
    for (name, other, file, words) in [
        ("leaf", TestCa::new("test"), "cert.pem", is_leaf),
        (
            "old",
            valid_in(2020, 2021),
            "ca.pem",
            "expired at 2021-01-01T00:00:00Z",
        ),
        (
            "new",
            valid_in(2090, 2091),
            "ca.pem",
            "valid from 2090-01-01T00:00:00Z on",
        ),
    ] {
        let dir = write(&ca, name);
        let added = write(&other, &format!("{name}-other")).join(file);
        let texts = [dir.join("ca.pem"), added].map(|path| std::fs::read_to_string(path).unwrap());
        std::fs::write(dir.join("ca.pem"), texts.concat()).unwrap();
        let error = TlsDir::read(&dir).unwrap_err().to_string();
        assert!(error.contains("ca.pem: certificate 2 of 2"), "{error}");
        assert!(error.contains(words), "{error}");
    }
}
