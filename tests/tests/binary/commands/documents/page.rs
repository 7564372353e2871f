//! The command blocks of a page.

/// Languages of blocks whose lines are commands.
const SHELLS: [&str; 3] = ["sh", "bash", "console"];
/// Commands that made the binary and the run of the test, so they are not repeated.
const DONE: [&str; 2] = ["cargo build --release", "cargo test --workspace --locked"];

/// A command of a block.
pub(super) struct PageCommand {
    pub(super) text: String,
    /// The output that the page shows.
    pub(super) output: Option<String>,
}

impl PageCommand {
    pub(super) fn new(text: &str) -> PageCommand {
        PageCommand {
            text: text.to_owned(),
            output: None,
        }
    }
}

/// A fenced block of commands.
pub(super) struct CommandBlock {
    /// The line of its fence, from 1.
    pub(super) line: usize,
    pub(super) first_line: String,
    /// The headings above it.
    pub(super) headings: Vec<String>,
    pub(super) commands: Vec<PageCommand>,
}

/// Returns the command blocks of a page, and the text of its blocks of TOML.
pub(super) fn parse_page(text: &str) -> (Vec<CommandBlock>, String) {
    let (mut blocks, mut toml) = (Vec::new(), String::new());
    let mut headings = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if line.starts_with("## ") {
            headings.push(line.to_owned());
        }
        let fence = line.trim_start();
        let Some(language) = fence.strip_prefix("```") else {
            continue;
        };
        let indent = line.len() - fence.len();
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line.get(indent..).unwrap_or_default())
            .take_while(|line| *line != "```")
            .collect();
        let is_session = body.iter().any(|line| line.starts_with("$ "));
        let has_commands = is_session || body.iter().any(|line| line.starts_with("seqsvr "));
        if has_commands || SHELLS.contains(&language) {
            blocks.push(CommandBlock {
                line: index + 1,
                first_line: body.first().copied().unwrap_or_default().to_owned(),
                headings: headings.clone(),
                commands: parse_commands(&body, is_session),
            });
        } else if language == "toml" {
            toml.push_str(&body.join("\n"));
            toml.push('\n');
        }
    }
    (blocks, toml)
}

/// Returns the commands of a block: the lines behind `$ ` with the output below them, or, in a
/// block without one, every line. A line with `…` is an outline, not a command.
fn parse_commands(body: &[&str], is_session: bool) -> Vec<PageCommand> {
    let mut commands: Vec<PageCommand> = Vec::new();
    let mut is_continued = false;
    for line in body {
        match commands.last_mut() {
            Some(last) if is_continued => last.text.push_str(&format!("\n{line}")),
            Some(last) if is_session && !line.starts_with("$ ") => {
                last.output
                    .get_or_insert_default()
                    .push_str(&format!("{line}\n"));
            }
            _ => commands.push(PageCommand {
                text: line.trim_start_matches("$ ").to_owned(),
                output: output_in_comment(line),
            }),
        }
        is_continued = line.ends_with('\\');
    }
    commands.retain(|command| is_played(&command.text));
    commands
}

/// Returns the comment behind a command if it shows a number or JSON.
fn output_in_comment(line: &str) -> Option<String> {
    let (_, comment) = line.split_once("  # ")?;
    let is_number = comment.bytes().all(|byte| byte.is_ascii_digit());
    (is_number || comment.starts_with('{')).then(|| comment.to_owned())
}

fn is_played(text: &str) -> bool {
    let command = text.split(" #").next().unwrap_or_default().trim();
    let is_comment = command.is_empty() || command.starts_with('#');
    !is_comment && !command.contains('…') && !DONE.contains(&command)
}
