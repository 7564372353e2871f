//! The program that clients play: its text, and its form for the players.

use serde_json::{Value, json};

/// Text of the program.
const PROGRAM: &str = include_str!("program.txt");

/// Begin of a key that is a uid of the client.
const UID: &str = "@default/u:";

/// How the commands of a step are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    /// One command, by the client's own call.
    Call,
    /// A pipeline; whether the client raises its first error.
    Pipeline { raises: bool },
    /// MULTI, the commands, EXEC; whether the client raises the first error.
    Transaction { raises: bool },
    /// Words on a connection of their own, without a library.
    Wire,
}

/// Commands that are sent together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProgramStep {
    pub(super) kind: StepKind,
    pub(super) commands: Vec<ProgramCommand>,
}

/// A command of the program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProgramCommand {
    /// Line of the program, without its mark.
    pub(super) line: String,
    pub(super) words: Vec<String>,
    /// Only the type of its reply and the names of its fields are compared.
    is_shape: bool,
}

impl StepKind {
    /// Returns the word that heads a step of this kind.
    pub(super) fn name(self) -> &'static str {
        match self {
            StepKind::Call => "call",
            StepKind::Pipeline { raises: false } => "pipeline",
            StepKind::Pipeline { raises: true } => "pipeline!",
            StepKind::Transaction { raises: false } => "transaction",
            StepKind::Transaction { raises: true } => "transaction!",
            StepKind::Wire => "wire",
        }
    }

    fn from_name(name: &str) -> Option<StepKind> {
        Some(match name {
            "pipeline" => StepKind::Pipeline { raises: false },
            "pipeline!" => StepKind::Pipeline { raises: true },
            "transaction" => StepKind::Transaction { raises: false },
            "transaction!" => StepKind::Transaction { raises: true },
            "wire" => StepKind::Wire,
            _ => return None,
        })
    }
}

/// Returns the steps of the program.
///
/// # Errors
/// A line of the program is none.
pub(super) fn load_program() -> Result<Vec<ProgramStep>, String> {
    parse_program(PROGRAM)
}

pub(super) fn parse_program(text: &str) -> Result<Vec<ProgramStep>, String> {
    let mut steps: Vec<ProgramStep> = Vec::new();
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let new_step = |kind, commands| ProgramStep { kind, commands };
        match (line.strip_prefix("  "), StepKind::from_name(line)) {
            (Some(command), _) => {
                let step = steps.last_mut().filter(|step| step.kind != StepKind::Call);
                let step = step.ok_or_else(|| format!("program: no head above `{line}`"))?;
                step.commands.push(ProgramCommand::parse(command)?);
            }
            (None, Some(kind)) => steps.push(new_step(kind, Vec::new())),
            (None, None) => {
                let command = ProgramCommand::parse(line)?;
                steps.push(new_step(StepKind::Call, vec![command]));
            }
        }
    }
    Ok(steps)
}

impl ProgramCommand {
    fn parse(text: &str) -> Result<ProgramCommand, String> {
        let shape = text.strip_prefix("~ ");
        let line = shape.unwrap_or(text);
        let words = split_words(line).ok_or_else(|| format!("program: a word of `{line}`"))?;
        Ok(ProgramCommand {
            line: line.to_owned(),
            words,
            is_shape: shape.is_some(),
        })
    }
}

/// Returns the steps as JSON for client number `number`, whose keys begin with `prefix`.
pub(super) fn to_player_json(steps: &[ProgramStep], number: usize, prefix: &str) -> String {
    let word = |word: &String| match (word.strip_prefix("k:"), word.strip_prefix(UID)) {
        (Some(key), _) => format!("{prefix}:{key}"),
        (_, Some(uid)) => format!("@default/{number}{uid:0>6}"),
        _ => word.clone(),
    };
    let step = |step: &ProgramStep| {
        let words = |c: &ProgramCommand| c.words.iter().map(word).collect::<Vec<_>>();
        let commands: Vec<Vec<String>> = step.commands.iter().map(words).collect();
        let shapes: Vec<bool> = step.commands.iter().map(|c| c.is_shape).collect();
        json!({"kind": step.kind.name(), "commands": commands, "shapes": shapes})
    };
    steps.iter().map(step).collect::<Value>().to_string()
}

/// Splits a line into words. Returns None if a quote or a brace is not closed.
fn split_words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let word;
        (word, rest) = match rest.as_bytes()[0] {
            b'"' => split_quoted(&rest[1..])?,
            b'{' => {
                let (braced, rest) = rest[1..].split_once('}')?;
                let (text, count) = braced.split_once('*')?;
                (text.repeat(count.parse().ok()?), rest)
            }
            _ => {
                let (word, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                (word.to_owned(), rest)
            }
        };
        words.push(word);
        rest = rest.trim_start();
    }
    (!words.is_empty()).then_some(words)
}

/// Splits a word off that a quote ends.
fn split_quoted(text: &str) -> Option<(String, &str)> {
    let mut word = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (end, '"') => return Some((word, &text[end + 1..])),
            (_, '\\') => word.push(match chars.next()?.1 {
                'r' => '\r',
                'n' => '\n',
                '0' => '\0',
                other => other,
            }),
            (_, other) => word.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_line_is_split_into_words() {
        let words = |line| split_words(line).expect(line);
        assert_eq!(words("SET k:a  5 NX"), ["SET", "k:a", "5", "NX"]);
        assert_eq!(
            words(r#"GET "" "a \"\r\n\\" x"#),
            ["GET", "", "a \"\r\n\\", "x"]
        );
        assert_eq!(words("INCR {ab*3}"), ["INCR", "ababab"]);
        for line in ["", "GET \"a", "GET {a*3", "GET {a}", "GET {a*b}"] {
            assert_eq!(split_words(line), None, "{line}");
        }
    }

    #[test]
    fn program_has_steps_of_every_kind_and_no_key_of_its_own() {
        let steps = load_program().unwrap();
        for kind in [
            "call",
            "pipeline",
            "pipeline!",
            "transaction",
            "transaction!",
            "wire",
        ] {
            assert!(steps.iter().any(|step| step.kind.name() == kind), "{kind}");
        }
        assert!(steps.iter().all(|step| !step.commands.is_empty()));
        let json = to_player_json(&steps, 7, "a-client");
        assert!(
            json.contains("a-client:a") && !json.contains("\"k:"),
            "{json}"
        );
        assert!(parse_program("  GET k:a").is_err());
        assert!(parse_program("GET k:a\n  GET k:a").is_err());
    }
}
