//! Exit codes of commands, as the table of the documents has them.

use std::path::Path;

use crate::dev::{DevServer, clean_command};

/// Head of the table.
const TABLE: &str = "| Command | Code |\n|---|---|\n";
/// Fewest rows that the table has.
const ROWS_MIN: usize = 20;

#[test]
fn commands_end_with_the_codes_of_the_table() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations/running.md");
    let page = std::fs::read_to_string(Path::new(page)).unwrap();
    let (_, table) = page.split_once(TABLE).expect(TABLE);
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    let rows: Vec<(&str, i32)> = lines.map(parse_row).collect();
    assert!(rows.len() >= ROWS_MIN, "{rows:?}");
    let dev = DevServer::start();
    let mut wrong = Vec::new();
    for (command, code) in rows {
        let args: Vec<&str> = command.split_whitespace().collect();
        let output = clean_command(&args)
            .env("SEQSVR_SERVER", format!("127.0.0.1:{}", dev.port))
            .current_dir(dev.dir.path())
            .output()
            .unwrap();
        if output.status.code() != Some(code) {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            wrong.push(format!("{command}: {:?}: {errors}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn parse_row(line: &str) -> (&str, i32) {
    let row = line.strip_prefix("| `seqsvr ");
    let cells = row.and_then(|row| row.strip_suffix(" |")?.split_once("` | "));
    let row = cells.and_then(|(command, code)| Some((command, code.parse().ok()?)));
    row.unwrap_or_else(|| panic!("running.md: not a command and its code: {line}"))
}
