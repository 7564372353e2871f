//! The table of differences on purpose in `docs/guide/redis.md`, which decides which differences
//! are expected.
//!
//! A row has the commands, what Valkey answers, what seqsvr answers, and why. The texts in
//! backquotes bind: a command of the program must fit one of the first column, Valkey's reply have
//! one of the second, and that of seqsvr one of the third. A number, `nil`, `OK` and `true` are
//! whole replies, and other texts are whole words of one.

use std::collections::BTreeSet;

/// The page with the table.
const PAGE: &str = include_str!("../../../../docs/guide/redis.md");
/// Head of the table.
const HEAD: &str = "| Command | Valkey | seqsvr | Why |";

/// The differences of the table.
pub(super) struct DifferenceTable {
    differences: Vec<ExpectedDifference>,
}

/// A command of a row, with the texts of the row.
struct ExpectedDifference {
    /// Pattern of the command.
    command: Vec<String>,
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
        let rows = lines.map(parse_row).collect::<Result<Vec<_>, _>>()?;
        let differences = rows.into_iter().flatten().collect();
        Ok(DifferenceTable { differences })
    }

    /// Returns the indexes of the differences that these replies to a command are.
    pub(super) fn find_expected(&self, words: &[String], valkey: &str, seqsvr: &str) -> Vec<usize> {
        let has_one = |texts: &[String], reply: &str| {
            texts.is_empty() || texts.iter().any(|text| has_text(reply, text))
        };
        let differences = self.differences.iter().enumerate();
        let expected = differences.filter(|(_, difference)| {
            fits(&difference.command, words)
                && has_one(&difference.valkey, valkey)
                && has_one(&difference.seqsvr, seqsvr)
        });
        expected.map(|(index, _)| index).collect()
    }

    /// Returns the commands of the differences that no client saw.
    pub(super) fn unseen_commands(&self, seen: &BTreeSet<usize>) -> Vec<String> {
        let differences = self.differences.iter().enumerate();
        let unseen = differences.filter(|(index, _)| !seen.contains(index));
        unseen
            .map(|(_, difference)| difference.command.join(" "))
            .collect()
    }
}

/// Returns a difference for each command of a row.
fn parse_row(line: &str) -> Result<Vec<ExpectedDifference>, String> {
    let [commands, valkey, seqsvr, _why] = &quoted_texts(line)[..] else {
        return Err(format!("redis.md: no row of four cells: {line}"));
    };
    if commands.is_empty() || (valkey.is_empty() && seqsvr.is_empty()) {
        return Err(format!("redis.md: no text in backquotes: {line}"));
    }
    let differences = commands.iter().map(|command| ExpectedDifference {
        command: command.split_whitespace().map(str::to_owned).collect(),
        valkey: valkey.clone(),
        seqsvr: seqsvr.clone(),
    });
    Ok(differences.collect())
}

/// Returns whether a reply is a value, or has another text that no word of the reply continues.
fn has_text(reply: &str, text: &str) -> bool {
    if text.parse::<i64>().is_ok() || ["nil", "OK", "true"].contains(&text) {
        // Without the marks of the type, such as `:` or `b"`.
        return reply.trim_matches(|c| "$:+_b\"".contains(c)) == text;
    }
    reply.match_indices(text).any(|(start, _)| {
        let (before, after) = (&reply[..start], &reply[start + text.len()..]);
        !before.ends_with(char::is_alphanumeric) && !after.starts_with(char::is_alphanumeric)
    })
}

/// Splits a row at its bars, but not at escaped ones. Returns the texts in backquotes of each cell.
fn quoted_texts(row: &str) -> Vec<Vec<String>> {
    let row = row.trim().trim_matches('|').replace("\\|", "\u{1}");
    let of_cell = |cell: &str| {
        let texts = cell.split('`').skip(1).step_by(2);
        texts.map(|text| text.replace('\u{1}', "|")).collect()
    };
    row.split('|').map(of_cell).collect()
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
        | `INCRBY key -…` | `5`, `nil` | `not -3` | a \\| b |\n\nend | of |\n";

    fn expects(table: &DifferenceTable, command: &str, valkey: &str, seqsvr: &str) -> bool {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        !table.find_expected(&words, valkey, seqsvr).is_empty()
    }

    #[test]
    fn row_expects_only_its_commands_and_replies() {
        let table = DifferenceTable::parse(TABLE).unwrap();
        assert!(expects(&table, "decr k", "-1", "Error: numbers only rise"));
        assert!(!expects(&table, "decr k", "-1", "Error: unknown command"));
        assert!(!expects(&table, "decr k 1", "-1", "only rise"));
        assert!(!expects(&table, "incr k", "-1", "only rise"));
        assert!(expects(&table, "INCRBY k -3", "5", "not -3"));
        assert!(expects(&table, "INCRBY k -3", "b\"5\"", "(not -3)"));
        assert!(expects(&table, "INCRBY k -3", "$nil", "not -3"));
        assert!(!expects(&table, "INCRBY k 3", "5", "not -3"));
        let words = ["DEL", "a", "b"].map(str::to_owned);
        let seen = table.find_expected(&words, "2", "only rise");
        let unseen = table.unseen_commands(&seen.into_iter().collect());
        assert_eq!(unseen, ["DECR key", "INCRBY key -…"]);
    }

    #[test]
    fn wrong_number_or_word_is_not_expected() {
        let table = DifferenceTable::parse(TABLE).unwrap();
        for valkey in ["6", ":15", "50", "-5", "b\"5.5\"", "[5, 6]", "\"nil 5\""] {
            assert!(
                !expects(&table, "INCRBY k -3", valkey, "not -3"),
                "{valkey}"
            );
        }
        for seqsvr in ["not -30", "cannot -3", "not 3"] {
            assert!(!expects(&table, "INCRBY k -3", "5", seqsvr), "{seqsvr}");
        }
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
