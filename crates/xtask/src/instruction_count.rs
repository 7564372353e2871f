//! `cargo xtask count-instructions`: instructions per number, counted by Valgrind.
//!
//! Unlike times, the counts repeat on a busy machine: exactly for the counters of `core`, within 1
//! % for the paths of `alloc` with uids, and within 3 % for its paths with keys, which are hashed
//! with a random secret.
//!
//! Each path runs with two numbers of rounds, and the difference of the counts is divided by the
//! difference of the rounds. So the instructions of start and end cancel out.

use std::path::Path;
use std::process::Command;

use seqsvr_test_support::process::build_executable;

/// A program that runs paths.
struct CountedProgram {
    package: &'static str,
    example: &'static str,
    /// The function whose instructions are counted; None: the whole program.
    counted_function: Option<&'static str>,
    /// Rounds of the short and of the long run.
    rounds: (u64, u64),
    /// Number of counts of each path, an odd number; the median is printed.
    repeats: u32,
    paths: &'static [CountedPath],
}

/// One row of the table.
struct CountedPath {
    name: &'static str,
    about: &'static str,
    /// Numbers that one round takes.
    numbers: u64,
}

const PROGRAMS: [CountedProgram; 2] = [
    CountedProgram {
        package: "seqsvr-core",
        example: "counters",
        counted_function: None,
        rounds: (10, 60),
        repeats: 1,
        paths: &[
            CountedPath {
                name: "one-by-one",
                about: "counters: a dense section, one number after the other",
                numbers: 1_024,
            },
            CountedPath {
                name: "in-blocks",
                about: "counters: a dense section, 64 looked up together",
                numbers: 1_024,
            },
            CountedPath {
                name: "keyed",
                about: "counters: keys of 20 bytes, 64 looked up together",
                numbers: 1_024,
            },
        ],
    },
    CountedProgram {
        package: "seqsvr-tests",
        example: "alloc_paths",
        counted_function: Some("alloc_paths::measured*"),
        rounds: (20, 220),
        repeats: 3,
        paths: &[
            CountedPath {
                name: "next",
                about: "AllocSvr: one unary `Next`",
                numbers: 1,
            },
            CountedPath {
                name: "pipe",
                about: "AllocSvr: a Pipe frame of 1,024 uids",
                numbers: 1_024,
            },
            CountedPath {
                name: "sections",
                about: "AllocSvr: a `NextMany` of 100 uids in 100 sections",
                numbers: 100,
            },
            CountedPath {
                name: "keyed",
                about: "AllocSvr: a `NextMany` of 100 keys of 20 bytes",
                numbers: 100,
            },
            CountedPath {
                name: "miss",
                about: "AllocSvr: a `NextMany` of 16 new keys, then another of the same keys",
                numbers: 32,
            },
        ],
    },
];

/// Counts all paths and prints a table in Markdown.
///
/// # Errors
/// Valgrind is not installed, or a program does not run.
pub fn count_instructions() -> Result<(), String> {
    let version = Command::new("valgrind").arg("--version").output();
    let version = version.map_err(|error| {
        format!("cannot start valgrind: {error}; install it, for example with `apt-get install valgrind`")
    })?;
    println!("{}\n", String::from_utf8_lossy(&version.stdout).trim());
    println!("| path | instructions per number |\n|---|---|");
    for program in &PROGRAMS {
        let args = [
            "-p",
            program.package,
            "--release",
            "--example",
            program.example,
        ];
        let example = build_executable(program.example, &args);
        let (short, long) = program.rounds;
        for path in program.paths {
            let mut counts = Vec::new();
            for _ in 0..program.repeats {
                let long_count = count_once(program, &example, path, long)?;
                let short_count = count_once(program, &example, path, short)?;
                counts.push(long_count.saturating_sub(short_count));
            }
            counts.sort_unstable();
            let median = counts[counts.len() / 2];
            let per_number = median as f64 / ((long - short) * path.numbers) as f64;
            println!("| {} | {per_number:.1} |", path.about);
        }
    }
    Ok(())
}

/// Returns the instructions of one run.
fn count_once(
    program: &CountedProgram,
    example: &Path,
    path: &CountedPath,
    rounds: u64,
) -> Result<u64, String> {
    let toggle = program
        .counted_function
        .map(|function| format!("--toggle-collect={function}"));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(toggle)
        .arg(example)
        .args([path.name, &rounds.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected : ")?;
        count.trim().parse().ok()
    });
    let count = count.filter(|_| output.status.success());
    count.ok_or_else(|| format!("callgrind printed no count:\n{text}"))
}
