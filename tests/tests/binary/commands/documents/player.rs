//! The player of the commands of a part.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use seqsvr_test_support::process::release_binary;

use super::page::PageCommand;
use super::parts::Part;

const SCRIPT: &str = include_str!("play.sh");
/// Time of a part, in seconds. It takes less than 20 on an idle machine.
const PART_TIMEOUT: &str = "150";
/// Command that gives a part a network and processes of its own.
pub(super) const ISOLATION: [&str; 3] = ["unshare", "-rnpf", "--kill-child"];
/// Programs that pages use, and that a machine may not have.
const OPTIONAL_TOOLS: [&str; 4] = ["curl", "grpcurl", "openssl", "redis-cli"];

/// The commands of a part, each with its place.
pub(super) struct PartCommands {
    part: &'static Part,
    toml: String,
    commands: Vec<(String, PageCommand)>,
}

impl PartCommands {
    /// Creates a part that has only the commands before it, and a file with this TOML.
    pub(super) fn new(part: &'static Part, toml: &str) -> PartCommands {
        let mut commands = PartCommands {
            part,
            toml: toml.to_owned(),
            commands: Vec::new(),
        };
        let before = part.before.iter().map(|text| PageCommand::new(text));
        commands.extend(&format!("{}, before it", part.page), before);
        commands
    }

    pub(super) fn extend(&mut self, place: &str, more: impl IntoIterator<Item = PageCommand>) {
        let more = more.into_iter();
        self.commands
            .extend(more.map(|command| (place.to_owned(), command)));
    }

    /// Plays the commands. Returns what differs from the page.
    pub(super) fn play(&self) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let (results, home) = (dir.path().join("results"), dir.path().join("home"));
        let bin = home.join("target/release");
        fs::create_dir(&results).unwrap();
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(release_binary(), bin.join("seqsvr")).unwrap();
        if !self.toml.is_empty() {
            fs::write(home.join("seqsvr.toml"), &self.toml).unwrap();
        }
        let (mut script, mut skipped) = (SCRIPT.to_owned(), BTreeSet::new());
        for (number, (place, command)) in self.commands.iter().enumerate() {
            let text = &command.text;
            if let Some(tool) = missing_tool(text) {
                say(&format!("SKIPPED: {place}: no {tool}: {text}"));
                skipped.insert(number);
                continue;
            }
            // A number depends on the calls before it.
            if command.output.is_some() && !skipped.is_empty() {
                say(&format!(
                    "SKIPPED: {place}: the output is not compared: {text}"
                ));
            }
            script.push_str(&step(number, text));
        }
        let script_path = dir.path().join("play.sh");
        fs::write(&script_path, script).unwrap();
        let path = std::env::var("PATH").unwrap();
        let run = isolated_command()
            .args([Path::new("bash"), &script_path])
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("results", &results)
            .current_dir(&home)
            .output()
            .unwrap();
        let played = (0..self.commands.len()).filter(|number| !skipped.contains(number));
        let exact_until = skipped.first().copied().unwrap_or(usize::MAX);
        let mut faults: Vec<String> = played
            .filter_map(|number| self.fault(number, number < exact_until, &results))
            .collect();
        if !faults.is_empty() {
            faults.push(String::from_utf8_lossy(&run.stderr).into_owned());
        }
        faults
    }

    /// Returns how the results of a command differ from the page.
    fn fault(&self, number: usize, is_exact: bool, results: &Path) -> Option<String> {
        let (place, command) = &self.commands[number];
        let read = |kind: &str| {
            let bytes = fs::read(results.join(format!("{number}.{kind}"))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).trim_end().to_owned()
        };
        let expected_code = match self.part.failure {
            Some((text, code)) if text == command.text => code,
            _ => "0",
        };
        let (code, out) = (read("code"), read("out"));
        let fault = match &command.output {
            _ if code.is_empty() => "did not end".to_owned(),
            _ if code != expected_code => format!("exit code {code}"),
            Some(output) if is_exact && without_epoch(&out) != without_epoch(output) => {
                format!("the page shows\n{output}")
            }
            _ => return None,
        };
        let errors = read("err");
        Some(format!(
            "{place}: {}: {fault}\n{out}\n{errors}",
            command.text
        ))
    }
}

/// Returns true if a command can have a network of its own on this machine.
pub(super) fn can_play() -> bool {
    let mut probe = isolated_command();
    let probe = probe.args(["sh", "-c", "ip link set lo up"]).output();
    probe.is_ok_and(|output| output.status.success())
}

/// Returns the start of a command with a network and processes of its own, which end with it.
fn isolated_command() -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", PART_TIMEOUT]);
    command.args(ISOLATION);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("SEQSVR_")) {
        command.env_remove(name);
    }
    command
}

/// Returns the lines of the script that run a command, or start a server and wait for it.
fn step(number: usize, text: &str) -> String {
    let text = text.replace("cargo run --release -- ", "seqsvr ");
    let words: Vec<&str> = text.split_whitespace().take(2).collect();
    let call = match words[..] {
        [program, "dev"] if program.ends_with("seqsvr") => {
            format!("serve {number} '^ready after'")
        }
        [program, "store" | "alloc"] if program.ends_with("seqsvr") => {
            format!("serve {number} '^  security'")
        }
        _ => format!("run {number}"),
    };
    format!("{call} <<'END_OF_COMMAND'\n{text}\nEND_OF_COMMAND\n")
}

/// Returns a program that the command needs and that this machine does not have.
fn missing_tool(text: &str) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |tool: &str| !std::env::split_paths(&path).any(|dir| dir.join(tool).exists());
    let is_used = |tool: &str| text.split_whitespace().any(|word| word == tool);
    let mut tools = OPTIONAL_TOOLS.into_iter();
    tools.find(|tool| is_used(tool) && is_missing(tool))
}

/// Returns an output without what depends on the order in which servers started.
fn without_epoch(output: &str) -> &str {
    let output = output.trim_end();
    output
        .split_once(" at epoch ")
        .map_or(output, |(before, _)| before)
}

/// Prints a line that the test harness does not capture.
pub(super) fn say(line: &str) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{line}").unwrap();
}
