//! The clients, and the processes that play the program with one of them.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::program::{ProgramStep, to_player_json};
use crate::child_guard::ChildGuard;
use crate::node_packages;
use crate::venv::{self, VenvError};

/// Packages of the Python clients, all with their versions.
const PYTHON_PACKAGES: &str = include_str!("requirements.txt");
/// Packages of the Node.js clients, all with their versions.
const NODE_PACKAGES: &str = include_str!("packages.txt");
/// Name of the two environments.
const ENVIRONMENT: &str = "conformance";

/// A client in one version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PinnedClient {
    /// Name of the library with its version.
    pub(super) name: &'static str,
    runtime: ClientRuntime,
    /// Name of the library for the player.
    module: &'static str,
    /// Version of RESP.
    protocol: u8,
}

/// What runs a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientRuntime {
    Python,
    Node,
}

/// All clients, each with the versions of RESP that it speaks.
const CLIENTS: [PinnedClient; 15] = [
    python("wire", "wire", 2),
    python("wire", "wire", 3),
    python("redis-py 8.1.0", "redis", 2),
    python("redis-py 8.1.0", "redis", 3),
    python("valkey-py 6.2.0", "valkey", 2),
    python("valkey-py 6.2.0", "valkey", 3),
    python("coredis 6.9.0", "coredis", 3),
    python("valkey-glide 2.6.0", "glide", 2),
    python("valkey-glide 2.6.0", "glide", 3),
    node("node redis 6.3.1", "redis", 2),
    node("node redis 6.3.1", "redis", 3),
    node("ioredis 6.0.0", "ioredis", 2),
    node("ioredis 6.0.0", "ioredis", 3),
    node("iovalkey 0.4.0", "iovalkey", 2),
    node("iovalkey 0.4.0", "iovalkey", 3),
];

const fn python(name: &'static str, module: &'static str, protocol: u8) -> PinnedClient {
    let runtime = ClientRuntime::Python;
    PinnedClient {
        name,
        runtime,
        module,
        protocol,
    }
}

const fn node(name: &'static str, module: &'static str, protocol: u8) -> PinnedClient {
    let runtime = ClientRuntime::Node;
    PinnedClient {
        name,
        runtime,
        module,
        protocol,
    }
}

impl PinnedClient {
    /// Returns the name of the client and the version of RESP.
    pub(super) fn label(&self) -> String {
        format!("{} (RESP{})", self.name, self.protocol)
    }
}

/// Returns the clients whose label contains one of these texts, or all if there are no texts.
///
/// # Errors
/// No client's label contains one of the texts.
pub(super) fn select_clients(texts: &[String]) -> Result<Vec<&'static PinnedClient>, String> {
    let has = |client: &PinnedClient, text: &String| client.label().contains(text);
    let is_unknown = |text: &&String| !CLIENTS.iter().any(|client| has(client, text));
    if let Some(unknown) = texts.iter().find(is_unknown) {
        let labels: Vec<String> = CLIENTS.iter().map(PinnedClient::label).collect();
        return Err(format!(
            "no client has {unknown:?} in its name; choose one of {}",
            labels.join(", ")
        ));
    }
    let is_selected =
        |client: &&PinnedClient| texts.is_empty() || texts.iter().any(|text| has(client, text));
    Ok(CLIENTS.iter().filter(is_selected).collect())
}

/// Makes the environment of Python, unless it is there. Returns its directory.
pub(super) fn install_python() -> Result<PathBuf, VenvError> {
    let packages: Vec<&str> = PYTHON_PACKAGES.lines().collect();
    venv::make_environment(ENVIRONMENT, &packages)
}

/// Where the libraries of the clients are.
pub(super) struct ClientLibraries {
    python: PathBuf,
    /// Directory of the packages of Node.js; Err: why there are none.
    node: Result<PathBuf, String>,
}

impl ClientLibraries {
    /// Installs the libraries that are missing.
    ///
    /// # Errors
    /// The package index of Python does not answer, or a package cannot be installed.
    pub(super) fn install() -> Result<ClientLibraries, VenvError> {
        let environment = install_python()?;
        let packages: Vec<&str> = NODE_PACKAGES.lines().collect();
        let node = match node_packages::install_packages(ENVIRONMENT, &packages) {
            Ok(dir) => Ok(dir),
            Err(VenvError::Unavailable(why)) => Err(why),
            Err(failed) => return Err(failed),
        };
        let python = environment.join("bin/python");
        Ok(ClientLibraries { python, node })
    }

    /// Returns why a client cannot be run; None: it can.
    pub(super) fn skip_reason(&self, client: &PinnedClient) -> Option<&str> {
        match client.runtime {
            ClientRuntime::Python => None,
            ClientRuntime::Node => self.node.as_ref().err().map(String::as_str),
        }
    }

    /// Starts a client that plays the program against a server. Its files are in `dir`. Each
    /// attempt has keys of its own.
    ///
    /// # Errors
    /// The process does not start, or a file cannot be written.
    pub(super) fn start_player(
        &self,
        client: &PinnedClient,
        attempt: usize,
        server: SocketAddr,
        steps: &[ProgramStep],
        dir: &Path,
    ) -> Result<Player, String> {
        let failed = |e: std::io::Error| format!("{}: {e}", client.label());
        let number = CLIENTS.iter().position(|other| other == client);
        let number = 1 + number.unwrap_or_default() + attempt * CLIENTS.len();
        let prefix = format!("{}-{}", client.name.replace(' ', "-"), number);
        let name = format!("{prefix}-on-{}", server.port());
        let program = dir.join(format!("{name}.json"));
        fs::write(&program, to_player_json(steps, number, &prefix)).map_err(failed)?;
        let output = dir.join(format!("{name}.replies"));
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/players");
        let mut command = match client.runtime {
            ClientRuntime::Python => {
                let mut command = Command::new(&self.python);
                command.arg(scripts.join("play.py"));
                command.env("PYTHONDONTWRITEBYTECODE", "1");
                command
            }
            ClientRuntime::Node => {
                let mut command = Command::new("node");
                command.arg(scripts.join("play.cjs"));
                command.env("NODE_PATH", self.node.as_ref()?);
                command
            }
        };
        command
            .args([client.module, &client.protocol.to_string()])
            .arg(server.port().to_string())
            .arg(&program)
            .stdin(Stdio::null())
            .stdout(File::create(&output).map_err(failed)?)
            .stderr(File::create(output.with_extension("err")).map_err(failed)?);
        let process = ChildGuard(command.spawn().map_err(failed)?);
        Ok(Player { process, output })
    }
}

/// A process that plays the program.
pub(super) struct Player {
    process: ChildGuard,
    output: PathBuf,
}

/// A reply that a client received.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlayedReply {
    /// Index of the step.
    pub(super) step: usize,
    /// Index of its command; None: all of them.
    pub(super) command: Option<usize>,
    /// Type and value, or class and text of the exception.
    pub(super) text: String,
}

impl Player {
    /// Waits for the end of the program. Returns its replies in their order.
    ///
    /// # Errors
    /// The process does not end in time, or fails.
    pub(super) fn wait(mut self, deadline: Instant) -> Result<Vec<PlayedReply>, String> {
        let status = self.process.wait_until(deadline)?;
        let output = fs::read_to_string(&self.output).map_err(|e| e.to_string())?;
        if !status.is_some_and(|status| status.success()) {
            let errors = fs::read_to_string(self.output.with_extension("err"));
            let last = output.lines().last().unwrap_or("none");
            let ended = status.map_or("no end in time".to_owned(), |s| s.to_string());
            let errors = errors.unwrap_or_default();
            return Err(format!("{ended}, last reply: {last}\n{errors}"));
        }
        output.lines().map(parse_reply).collect()
    }
}

fn parse_reply(line: &str) -> Result<PlayedReply, String> {
    let (step, command, text) = serde_json::from_str(line).map_err(|e| format!("{e}: {line}"))?;
    Ok(PlayedReply {
        step,
        command,
        text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_no_client_has_is_an_error_that_names_the_clients() {
        let select = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            select_clients(&texts).map(|clients| clients.len())
        };
        assert_eq!(select(&[]), Ok(CLIENTS.len()));
        assert_eq!(select(&["wire", "coredis"]), Ok(3));
        let error = select(&["wire", "RESP4"]).unwrap_err();
        assert!(
            error.contains("\"RESP4\"") && error.contains("coredis 6.9.0 (RESP3)"),
            "{error}"
        );
    }
}
