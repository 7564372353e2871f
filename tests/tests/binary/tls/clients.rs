//! Chains of `seqsvr cert` with the verifiers of other languages: each connects to a server of
//! rustls that requires its certificate, by a DNS name and by an IP address.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use seqsvr_net::tls::Certificate;

use super::{TestAuthority, text_of};

const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// A secure directory: CA, certificate and key.
struct TestCredentials {
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl TestCredentials {
    fn load(ca_file: &Path, dir: &Path) -> TestCredentials {
        let mut roots = RootCertStore::empty();
        for ca in CertificateDer::pem_file_iter(ca_file).unwrap() {
            roots.add(ca.unwrap()).unwrap();
        }
        let chain = CertificateDer::pem_file_iter(dir.join("cert.pem")).unwrap();
        TestCredentials {
            roots: Arc::new(roots),
            chain: chain.map(Result::unwrap).collect(),
            key: PrivateKeyDer::from_pem_file(dir.join("key.pem")).unwrap(),
        }
    }

    fn into_server(self) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots, provider.clone()).build();
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(self.chain, self.key)
            .unwrap()
    }

    fn into_client(self) -> ClientConfig {
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(self.roots, provider.clone()).build();
        ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_webpki_verifier(verifier.unwrap())
            .with_client_auth_cert(self.chain, self.key)
            .unwrap()
    }
}

/// Answers requests of HTTP with the identity of the caller, until the test process ends. Returns
/// the port.
fn start_server(config: ServerConfig) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let config = Arc::new(config);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let config = config.clone();
            // A caller that rejects the server ends its connection.
            std::thread::spawn(move || drop(answer_one(config, stream.unwrap())));
        }
    });
    port
}

fn answer_one(config: Arc<ServerConfig>, mut tcp: TcpStream) -> io::Result<()> {
    tcp.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut tls = ServerConnection::new(config).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut tcp);
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        request.extend(byte);
    }
    let peer = stream.conn.peer_certificates().unwrap();
    let identity = Certificate::parse(&peer[0]).unwrap().identity().unwrap();
    let body = identity.to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}",
        body.len()
    );
    write!(stream, "{head}\r\n\r\n{body}")?;
    stream.conn.send_close_notify();
    stream.flush()
}

/// A client of another language, and the command that connects twice and prints both answers.
struct ForeignClient {
    name: &'static str,
    program: &'static str,
    /// Arguments that print the version, which also show that the program is installed.
    version: &'static [&'static str],
    /// Script before port, CA file, certificate and key; None: the arguments of curl.
    script: Option<&'static str>,
}

const CLIENTS: [ForeignClient; 4] = [
    ForeignClient {
        name: "curl",
        program: "curl",
        version: &["--version"],
        script: None,
    },
    ForeignClient {
        name: "Python",
        program: "python3",
        version: &["--version"],
        script: Some("connect.py"),
    },
    ForeignClient {
        name: "Node.js",
        program: "node",
        version: &["--version"],
        script: Some("connect.cjs"),
    },
    ForeignClient {
        // A JRE has no compiler, so the version is that of the compiler.
        name: "Java",
        program: "java",
        version: &["-m", "jdk.compiler/com.sun.tools.javac.Main", "-version"],
        script: Some("Connect.java"),
    },
];

impl ForeignClient {
    /// Returns the version, or None if the program is not installed.
    fn find_version(&self) -> Option<String> {
        let output = Command::new(self.program)
            .args(self.version)
            .output()
            .ok()?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        let first = text.lines().next().unwrap_or_default().to_owned();
        output.status.success().then_some(first)
    }

    fn connect(&self, port: u16, ca_file: &Path, dir: &Path) -> Output {
        let (cert, key) = (dir.join("cert.pem"), dir.join("key.pem"));
        let mut command = Command::new(self.program);
        match self.script {
            Some(script) => {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/binary/tls");
                command.arg(folder.join(script)).arg(port.to_string());
                command.args([ca_file, &cert, &key]);
            }
            None => {
                command.args(["-sS", "--noproxy", "*", "--cacert", text_of(ca_file)]);
                command.args(["--cert", text_of(&cert), "--key", text_of(&key)]);
                command.arg(format!("https://localhost:{port}/"));
                command.arg(format!("https://127.0.0.1:{port}/"));
            }
        }
        command.output().unwrap()
    }
}

/// Returns the answers that a client of rustls receives at a host.
fn connect_rustls(port: u16, host: &str, credentials: TestCredentials) -> io::Result<String> {
    let mut tcp = TcpStream::connect(("127.0.0.1", port))?;
    tcp.set_read_timeout(Some(READ_TIMEOUT))?;
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let mut tls = ClientConnection::new(Arc::new(credentials.into_client()), name).unwrap();
    let mut stream = rustls::Stream::new(&mut tls, &mut tcp);
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// CA files that a caller may have, and whether it accepts the server with them.
fn ca_files(ca: &TestAuthority) -> Vec<(PathBuf, bool)> {
    // Of the same domain, so it has the same name and another key.
    let other = fs::read(TestAuthority::create().path().join("ca.pem")).unwrap();
    let own = fs::read(ca.path().join("ca.pem")).unwrap();
    let files = [
        ("own.pem", own.clone(), true),
        // As in a change of the CA.
        ("both.pem", [&other[..], &own].concat(), true),
        ("other.pem", other, false),
    ];
    let write = |(name, content, is_accepted): (&str, Vec<u8>, bool)| {
        let file = ca.path().join(name);
        fs::write(&file, content).unwrap();
        (file, is_accepted)
    };
    files.into_iter().map(write).collect()
}

#[test]
fn clients_of_every_language_accept_the_server_and_its_ca_only() {
    let ca = TestAuthority::create();
    let hosts = ["--host=localhost", "--host=127.0.0.1"];
    let server = ca.issue("store", "s1", &hosts);
    let client = ca.issue("client", "billing", &[]);
    let ca_file = server.join("ca.pem");
    let port = start_server(TestCredentials::load(&ca_file, &server).into_server());
    let identity = "seqsvr://prod/client/billing";
    let ca_files = ca_files(&ca);

    for foreign in CLIENTS {
        let Some(version) = foreign.find_version() else {
            println!(
                "SKIPPED: {}: {} is not installed",
                foreign.name, foreign.program
            );
            continue;
        };
        for (ca_file, is_accepted) in &ca_files {
            let output = foreign.connect(port, ca_file, &client);
            let what = format!("{version} with {}: {output:?}", ca_file.display());
            assert_eq!(output.status.success(), *is_accepted, "{what}");
            let answers = String::from_utf8_lossy(&output.stdout);
            let count = if *is_accepted { 2 } else { 0 };
            assert_eq!(answers.matches(identity).count(), count, "{what}");
        }
        println!("{}: {version}", foreign.name);
    }
    for (ca_file, is_accepted) in &ca_files {
        for host in ["localhost", "127.0.0.1"] {
            let credentials = TestCredentials::load(ca_file, &client);
            let answer = connect_rustls(port, host, credentials);
            assert_eq!(answer.is_ok(), *is_accepted, "{host}: {answer:?}");
            assert!(!is_accepted || answer.unwrap().contains(identity));
        }
    }
    // A host that is not in the certificate.
    let credentials = TestCredentials::load(&ca_file, &client);
    let error = connect_rustls(port, "store1.internal", credentials).unwrap_err();
    assert!(error.to_string().contains("store1.internal"), "{error}");
}

/// Returns whether `openssl verify` accepts a certificate for a purpose.
fn openssl_accepts(ca_file: &Path, dir: &Path, purpose: &str) -> (bool, String) {
    let mut command = Command::new("openssl");
    command.args(["verify", "-x509_strict", "-purpose", purpose]);
    command.args(["-CAfile", text_of(ca_file)]);
    let output = command.arg(dir.join("cert.pem")).output().unwrap();
    (output.status.success(), format!("{output:?}"))
}

#[test]
fn openssl_accepts_each_role_for_its_purposes_only() {
    if Command::new("openssl").arg("version").output().is_err() {
        return println!("SKIPPED: openssl is not installed");
    }
    let ca = TestAuthority::create();
    let ca_files = ca_files(&ca);
    for role in ["store", "alloc", "admin", "client"] {
        let is_server = ["store", "alloc"].contains(&role);
        let hosts: &[&str] = if is_server { &["--host=a"] } else { &[] };
        let dir = ca.issue(role, "x", hosts);
        for (ca_file, is_trusted) in &ca_files {
            for (purpose, fits) in [("sslclient", true), ("sslserver", is_server)] {
                let (is_accepted, output) = openssl_accepts(ca_file, &dir, purpose);
                assert_eq!(
                    is_accepted,
                    *is_trusted && fits,
                    "{role} {purpose}: {output}"
                );
            }
        }
    }
    let mut show = Command::new("openssl");
    show.args(["x509", "-noout", "-text", "-in"]);
    let output = show.arg(ca.path().join("ca.pem")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "CA:TRUE, pathlen:0",
        "Certificate Sign, CRL Sign\n",
        "X509v3 Basic Constraints: critical",
        "X509v3 Key Usage: critical",
        "Subject: O = prod, CN = seqsvr CA\n",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}
