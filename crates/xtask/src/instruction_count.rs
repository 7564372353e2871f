//! Instructions that a number takes, counted by Valgrind. Unlike times they repeat, whatever else
//! the machine does: to the last digit for the counters of `core`; within 1 % for the first paths
//! of `alloc`, within 3 % for its keyed ones, whose keys are hashed with a random secret.
//!
//! Each path is run with two lengths and the difference is counted, so that start and end cancel
//! out.

use std::path::Path;
use std::process::Command;

use seqsvr_test_support::process::build_executable;

/// A program that runs paths.
struct Program {
    package: &'static str,
    example: &'static str,
    /// The function that is counted; None: the whole program.
    counted: Option<&'static str>,
    /// Rounds of the two runs.
    rounds: (u64, u64),
    /// How often each path is counted, an odd number; the median is printed.
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

const PROGRAMS: [Program; 2] = [
    Program {
        package: "seqsvr-core",
        example: "counters",
        counted: None,
        rounds: (10, 60),
        repeats: 1,
        paths: &[
            CountedPath {
                name: "one-by-one",
                about: "counters: a dense section, a number after the other",
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
    Program {
        package: "seqsvr-tests",
        example: "alloc_paths",
        counted: Some("alloc_paths::measured*"),
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
                about: "AllocSvr: a `NextMany` of 16 new keys, and again of the same keys",
                numbers: 32,
            },
        ],
    },
];

/// Prints a table in Markdown.
///
/// # Errors
/// Valgrind is not installed, or a program does not run.
pub fn run() -> Result<(), String> {
    let found = Command::new("valgrind").arg("--version").output();
    let version = found.map_err(|error| {
        format!("valgrind does not run ({error}): install it, for example with `apt-get install valgrind`")
    })?;
    println!("{}\n", String::from_utf8_lossy(&version.stdout).trim());
    println!("| path | instructions a number |\n|---|---|");
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
            let mut more = Vec::new();
            for _ in 0..program.repeats {
                let long = count(program, &example, path, long)?;
                more.push(long.saturating_sub(count(program, &example, path, short)?));
            }
            more.sort_unstable();
            let more = more[more.len() / 2];
            let each = more as f64 / ((long - short) * path.numbers) as f64;
            println!("| {} | {each:.1} |", path.about);
        }
    }
    Ok(())
}

/// Returns the instructions counted in one run.
fn count(
    program: &Program,
    example: &Path,
    path: &CountedPath,
    rounds: u64,
) -> Result<u64, String> {
    let toggle = program
        .counted
        .map(|function| format!("--toggle-collect={function}"));
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .args(toggle)
        .arg(example)
        .args([path.name, &rounds.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&ran.stderr);
    let counted = printed.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected : ")?;
        count.trim().parse().ok()
    });
    let counted = counted.filter(|_| ran.status.success());
    counted.ok_or_else(|| format!("callgrind counted nothing:\n{printed}"))
}
