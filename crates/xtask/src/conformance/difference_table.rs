//! The table of differences on purpose in `docs/guide/redis.md`, which decides which differences
//! are expected.
//!
//! A row has the commands, what Valkey answers, what seqsvr answers, and why. The texts in
//! backquotes bind: a command of the program must fit one of the first column, Valkey's reply
//! contain one of the second, and that of seqsvr one of the third.

use std::cell::Cell;

/// The page with the table.
const PAGE: &str = include_str!("../../../../docs/guide/redis.md");
/// Head of the table.
const HEAD: &str = "| Command | Valkey | seqsvr | Why |";

/// The rows of the table.
pub(super) struct DifferenceTable {
    rows: Vec<DifferenceRow>,
}

/// A row of the table.
struct DifferenceRow {
    /// Patterns of commands; whether each fits a command whose replies differ.
    commands: Vec<(Vec<String>, Cell<bool>)>,
    valkey: Vec<String>,
    seqsvr: Vec<String>,
}

impl DifferenceTable {
    /// Reads the table of the page.
    ///
    /// # Errors
    /// The page has no such table, or a row does not bind anything.
    pub(super) fn load() -> Result<DifferenceTable, String> {
        DifferenceTable::parse(PAGE)
    }

    fn parse(page: &str) -> Result<DifferenceTable, String> {
        let (_, table) = page
            .split_once(HEAD)
            .ok_or_else(|| format!("redis.md has no table `{HEAD}`"))?;
        let lines = table.lines().skip(2);
        let lines = lines.take_while(|line| line.starts_with('|'));
        let rows = lines.map(DifferenceRow::parse).collect::<Result<_, _>>()?;
        Ok(DifferenceTable { rows })
    }

    /// Returns whether a row expects that these replies to a command differ.
    pub(super) fn expects(&self, words: &[String], valkey: &str, seqsvr: &str) -> bool {
        let contains = |texts: &[String], reply: &str| {
            texts.is_empty() || texts.iter().any(|text| reply.contains(text))
        };
        let mut is_expected = false;
        for row in &self.rows {
            if !contains(&row.valkey, valkey) || !contains(&row.seqsvr, seqsvr) {
                continue;
            }
            for (pattern, is_used) in &row.commands {
                if fits(pattern, words) {
                    is_used.set(true);
                    is_expected = true;
                }
            }
        }
        is_expected
    }

    /// Returns the commands of the table that no difference needed.
    pub(super) fn unused_commands(&self) -> Vec<String> {
        let commands = self.rows.iter().flat_map(|row| &row.commands);
        let unused = commands.filter(|(_, is_used)| !is_used.get());
        unused.map(|(pattern, _)| pattern.join(" ")).collect()
    }
}

impl DifferenceRow {
    fn parse(line: &str) -> Result<DifferenceRow, String> {
        let cells = split_cells(line);
        let [commands, valkey, seqsvr, _why] = &cells[..] else {
            return Err(format!(
                "redis.md: a row with {} cells: {line}",
                cells.len()
            ));
        };
        let words = |text: String| text.split_whitespace().map(str::to_owned).collect();
        let commands = quoted_texts(commands).into_iter();
        let row = DifferenceRow {
            commands: commands
                .map(|text| (words(text), Cell::new(false)))
                .collect(),
            valkey: quoted_texts(valkey),
            seqsvr: quoted_texts(seqsvr),
        };
        let binds_reply = !row.valkey.is_empty() || !row.seqsvr.is_empty();
        match !row.commands.is_empty() && binds_reply {
            true => Ok(row),
            false => Err(format!("redis.md: no text in backquotes: {line}")),
        }
    }
}

/// Splits a row of a table at its bars, but not at escaped ones.
fn split_cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_matches('|').replace("\\|", "\u{1}");
    let cells = line.split('|');
    cells
        .map(|cell| cell.trim().replace('\u{1}', "|"))
        .collect()
}

/// Returns the texts in backquotes.
fn quoted_texts(cell: &str) -> Vec<String> {
    let parts = cell.split('`').skip(1).step_by(2);
    parts.map(str::to_owned).collect()
}

/// Returns whether a command fits a pattern: `KEY` only that word in any case, `key` any word, `@…`
/// and `-…` any word that begins so, `…` any words.
fn fits(pattern: &[String], words: &[String]) -> bool {
    let Some((first, rest)) = pattern.split_first() else {
        return words.is_empty();
    };
    if first == "…" {
        return true;
    }
    let Some((word, words)) = words.split_first() else {
        return false;
    };
    let is_literal = !first.chars().any(char::is_lowercase);
    let fits_first = match first.strip_suffix('…') {
        Some(begin) => word.starts_with(begin),
        None => !is_literal || word.eq_ignore_ascii_case(first),
    };
    fits_first && fits(rest, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "text\n| Command | Valkey | seqsvr | Why |\n|---|---|---|---|\n\
        | `DECR key`, `DEL …` | a lower number | `only rise` | x |\n\
        | `INCRBY key -…` | `5` | `not -` | a \\| b |\n\nend | of |\n";

    fn expects(table: &DifferenceTable, command: &str, valkey: &str, seqsvr: &str) -> bool {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        table.expects(&words, valkey, seqsvr)
    }

    #[test]
    fn row_expects_only_its_commands_and_replies() {
        let table = DifferenceTable::parse(TABLE).unwrap();
        assert!(expects(&table, "decr k", "-1", "Error: numbers only rise"));
        assert!(!expects(&table, "decr k", "-1", "Error: unknown command"));
        assert!(!expects(&table, "decr k 1", "-1", "only rise"));
        assert!(!expects(&table, "incr k", "-1", "only rise"));
        assert!(expects(&table, "INCRBY k -3", "5", "not -3"));
        assert!(!expects(&table, "INCRBY k -3", "6", "not -3"));
        assert!(!expects(&table, "INCRBY k 3", "5", "not -3"));
        assert_eq!(table.unused_commands(), ["DEL …"]);
        assert!(expects(&table, "DEL a b", "2", "only rise"));
        assert!(table.unused_commands().is_empty());
    }

    #[test]
    fn row_without_texts_is_an_error() {
        for row in [
            "| a | b | `c` | d |",
            "| `a` | b | c | d |",
            "| `a` | `b` | `c` |",
        ] {
            let page = format!("{HEAD}\n|---|---|---|---|\n{row}\n");
            assert!(DifferenceTable::parse(&page).is_err(), "{row}");
        }
        assert!(DifferenceTable::parse("no table").is_err());
    }
}
