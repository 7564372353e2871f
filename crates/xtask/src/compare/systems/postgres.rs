//! PostgreSQL with its default configuration, and pgbench, its generator.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::program::{find_program, free_address, make_temp_dir, port_of, run_to_end, to_arg};
use super::system_process::{POLL_INTERVAL, START_TIMEOUT, SystemProcess};
use crate::compare::error::CompareError;

/// Users that have a row.
const USERS: u32 = 100_000;

/// A PostgreSQL that runs.
pub(crate) struct PostgresSystem(SystemProcess);

impl PostgresSystem {
    /// Starts a database with a sequence and a table of one row per user.
    pub(crate) fn start() -> Result<PostgresSystem, CompareError> {
        let (initdb, postgres) = (find_program("initdb")?, find_program("postgres")?);
        find_program("pgbench")?;
        let dir = make_server_dir()?;
        let data = to_arg(&dir.path().join("data"));
        let auth = ["-D", &data, "-A", "trust", "-U", "postgres"];
        run_to_end(as_server_user(&initdb).args(auth))?;
        let address = free_address();
        let mut command = as_server_user(&postgres);
        command
            .args(["-D", &data, "-h", "127.0.0.1", "-p", port_of(&address)])
            .args(["-k", &to_arg(dir.path()), "-c", "max_connections=200"]);
        let server = PostgresSystem(SystemProcess::start(command, address, dir)?);
        server.wait_until_ready()?;
        let schema = format!(
            "create sequence numbers; create table users (id int primary key, seq bigint not null); \
             insert into users select n, 0 from generate_series(1, {USERS}) n"
        );
        let mut psql = Command::new(find_program("psql")?);
        psql.args(server.login_args())
            .args(["-q", "-v", "ON_ERROR_STOP=1"]);
        run_to_end(psql.args(["-c", &schema]))?;
        Ok(server)
    }

    /// Waits until the server admits sessions. It accepts connections a moment earlier.
    fn wait_until_ready(&self) -> Result<(), CompareError> {
        let (pg_isready, started) = (find_program("pg_isready")?, Instant::now());
        while run_to_end(Command::new(&pg_isready).args(&self.login_args()[..2])).is_err() {
            if started.elapsed() > START_TIMEOUT {
                let text = format!("PostgreSQL is not ready after {START_TIMEOUT:?}");
                return Err(CompareError::Failed(text));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Calls `nextval` of one sequence, once per transaction. Returns transactions per second.
    pub(crate) fn run_nextval(
        &self,
        clients: u32,
        run_time: Duration,
    ) -> Result<f64, CompareError> {
        self.run_pgbench("select nextval('numbers');\n", clients, run_time)
    }

    /// Updates the row of a random user, once per transaction. Returns transactions per second.
    pub(crate) fn run_updates(
        &self,
        clients: u32,
        run_time: Duration,
    ) -> Result<f64, CompareError> {
        let script = format!(
            "\\set id random(1, {USERS})\nupdate users set seq = seq + 1 where id = :id returning seq;\n"
        );
        self.run_pgbench(&script, clients, run_time)
    }

    fn run_pgbench(
        &self,
        script: &str,
        clients: u32,
        run_time: Duration,
    ) -> Result<f64, CompareError> {
        let file = self.0.dir.path().join("script.sql");
        fs::write(&file, script).map_err(CompareError::failed)?;
        let output = run_to_end(
            Command::new(find_program("pgbench")?)
                .args(self.login_args())
                .args(["-n", "-M", "prepared", "-j", "2"])
                .args(["-c", &clients.to_string()])
                .args(["-T", &run_time.as_secs().max(1).to_string()])
                .args(["-f", &to_arg(&file)])
                .arg("postgres"),
        )?;
        let rate = output.lines().find_map(|line| line.strip_prefix("tps = "));
        let rate = rate.and_then(|line| line.split_whitespace().next()?.parse().ok());
        let unexpected = || CompareError::Failed(format!("unexpected output of pgbench: {output}"));
        rate.ok_or_else(unexpected)
    }

    fn login_args(&self) -> [String; 3] {
        let arg = |name: &str, value: &str| format!("--{name}={value}");
        [
            arg("host", "127.0.0.1"),
            arg("port", port_of(&self.0.address)),
            arg("username", "postgres"),
        ]
    }
}

/// Returns a command of PostgreSQL, which does not run as root. For root it runs as the user that
/// PostgreSQL's package makes.
fn as_server_user(program: &Path) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(program);
    }
    // setpriv replaces itself by the server, so that the server receives our signals.
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--init-groups"])
        .arg(program);
    command
}

/// Makes a directory that belongs to the user of the server.
fn make_server_dir() -> Result<TempDir, CompareError> {
    let dir = make_temp_dir()?;
    if rustix::process::getuid().is_root() {
        run_to_end(Command::new("chown").arg("postgres").arg(dir.path())).map_err(|_| {
            CompareError::Unavailable("PostgreSQL needs the user postgres".to_owned())
        })?;
    }
    Ok(dir)
}
