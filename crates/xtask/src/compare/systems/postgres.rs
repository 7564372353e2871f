//! PostgreSQL as it comes, and pgbench.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{Failure, POLL, STARTED_WITHIN, Server, address, find, output, text};

/// Users who have a row.
const USERS: u32 = 100_000;

pub(crate) struct Postgres(pub(crate) Server);

impl Postgres {
    /// Makes a database with a sequence and a table of one row a user.
    pub(crate) fn start() -> Result<Postgres, Failure> {
        let (initdb, postgres) = (find("initdb")?, find("postgres")?);
        find("pgbench")?;
        let dir = owned()?;
        let data = text(&dir.path().join("data"));
        let auth = ["-D", &data, "-A", "trust", "-U", "postgres"];
        output(as_postgres(&initdb).args(auth))?;
        let address = address();
        let port = address.rsplit(':').next().unwrap_or_default();
        let mut command = as_postgres(&postgres);
        command
            .args(["-D", &data, "-h", "127.0.0.1", "-p", port])
            .args(["-k", &text(dir.path()), "-c", "max_connections=200"]);
        let server = Postgres(Server::start(command, address.clone(), dir)?);
        let table = format!(
            "create sequence numbers; create table users (id int primary key, seq bigint not null); \
             insert into users select n, 0 from generate_series(1, {USERS}) n"
        );
        // It listens a moment before it lets anybody in.
        let (ready, began) = (find("pg_isready")?, Instant::now());
        while output(Command::new(&ready).args(&server.login()[..2])).is_err() {
            if began.elapsed() > STARTED_WITHIN {
                return Err(Failure::Wrong("PostgreSQL lets nobody in".to_owned()));
            }
            std::thread::sleep(POLL);
        }
        let mut psql = Command::new(find("psql")?);
        psql.args(server.login())
            .args(["-q", "-v", "ON_ERROR_STOP=1"]);
        output(psql.args(["-c", &table]))?;
        Ok(server)
    }

    /// `nextval` of one sequence, each its own call.
    pub(crate) fn nextval(&self, clients: u32, time: Duration) -> Result<f64, Failure> {
        self.bench("select nextval('numbers');\n", clients, time)
    }

    /// A number of a user: his row, updated.
    pub(crate) fn update(&self, clients: u32, time: Duration) -> Result<f64, Failure> {
        let script = format!(
            "\\set id random(1, {USERS})\nupdate users set seq = seq + 1 where id = :id returning seq;\n"
        );
        self.bench(&script, clients, time)
    }

    fn bench(&self, script: &str, clients: u32, time: Duration) -> Result<f64, Failure> {
        let file = self.0.dir.path().join("script.sql");
        fs::write(&file, script).map_err(Failure::wrong)?;
        let said = output(
            Command::new(find("pgbench")?)
                .args(self.login())
                .args([
                    "-n",
                    "-M",
                    "prepared",
                    "-j",
                    "2",
                    "-c",
                    &clients.to_string(),
                ])
                .args(["-T", &time.as_secs().max(1).to_string(), "-f", &text(&file)])
                .arg("postgres"),
        )?;
        let rate = said.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|line| line.split_whitespace().next()?.parse().ok());
        rate.ok_or_else(|| Failure::Wrong(format!("pgbench said: {said}")))
    }

    fn login(&self) -> [String; 3] {
        let arg = |name: &str, value: &str| format!("--{name}={value}");
        [
            arg("host", "127.0.0.1"),
            arg("port", self.0.port()),
            arg("username", "postgres"),
        ]
    }
}

/// PostgreSQL refuses to run as root: then it runs as the user that its package made.
fn as_postgres(program: &Path) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(program);
    }
    // In its place, not as its child, so that it is the server that gets our signals.
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--init-groups"])
        .arg(program);
    command
}

/// A directory that belongs to whom the server runs as.
fn owned() -> Result<TempDir, Failure> {
    let dir = super::dir()?;
    if rustix::process::getuid().is_root() {
        output(Command::new("chown").arg("postgres").arg(dir.path()))
            .map_err(|_| Failure::Absent("there is no user postgres to run it as".to_owned()))?;
    }
    Ok(dir)
}
