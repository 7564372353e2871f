//! Checks of the command line and of all help texts.

use clap::{CommandFactory, Parser};

use super::CommandLine;
use super::common::{CONNECTION_HEADING, GLOBAL_HEADING, LIMITS_HEADING};

#[test]
fn command_line_passes_the_checks_of_clap() {
    CommandLine::command().debug_assert();
}

/// Returns the command itself and all below it, with their full names.
fn commands_below(command: &clap::Command, parent: &str) -> Vec<(String, clap::Command)> {
    let name = format!("{parent}{}", command.get_name());
    // `help` is clap's own.
    let subcommands = command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help");
    let below = subcommands.flat_map(|sub| commands_below(sub, &format!("{name} ")));
    let below: Vec<_> = below.collect();
    std::iter::once((name, command.clone()))
        .chain(below)
        .collect()
}

fn all_commands() -> Vec<(String, clap::Command)> {
    let mut root = CommandLine::command();
    root.build();
    commands_below(&root, "")
}

/// Returns the headings of a help, and the flags below each, in their order.
fn help_sections(help: &str) -> Vec<(String, Vec<String>)> {
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for line in help.lines() {
        if let Some(heading) = line.strip_suffix(':').filter(|h| !h.starts_with(' ')) {
            sections.push((heading.to_owned(), Vec::new()));
        }
        let line = line.trim_start();
        // After a short one: `-h, --help`.
        let flag = match line.as_bytes() {
            [b'-', _, b',', b' ', ..] => &line[4..],
            _ => line,
        };
        if let (Some(flag), Some((_, flags))) = (flag.strip_prefix("--"), sections.last_mut()) {
            let end = flag.find([' ', '=']).unwrap_or(flag.len());
            flags.push(flag[..end].to_owned());
        }
    }
    sections
}

#[test]
fn help_shows_flags_of_the_command_first_and_global_flags_last() {
    let commands = all_commands();
    assert!(commands.len() > 25, "{}", commands.len());
    for (name, command) in commands {
        // Without the examples after it.
        let mut command = command.after_help("");
        let help = command.render_long_help().to_string();
        let sections = help_sections(&help);
        let (heading, global_flags) = sections.last().unwrap();
        assert_eq!(heading, GLOBAL_HEADING, "{name}: {help}");
        assert_eq!(
            global_flags,
            &["log", "log-format", "config"],
            "{name}: {help}"
        );
        let has_heading = |heading| sections.iter().any(|(found, _)| found == heading);
        assert!(
            has_heading("Options") || !has_heading(CONNECTION_HEADING),
            "{name}: {help}"
        );
        for arg in command.get_arguments() {
            assert_eq!(
                arg.is_global_set(),
                arg.get_help_heading() == Some(GLOBAL_HEADING),
                "{name} {arg}"
            );
        }
        // In the order of the declaration, section by section.
        for (heading, flags) in &sections {
            let args = command.get_arguments().filter(|arg| {
                let is_own = !["help", "version"].contains(&arg.get_id().as_str());
                is_own
                    && !arg.is_hide_set()
                    && arg.get_help_heading().unwrap_or("Options") == heading
            });
            let declared: Vec<&str> = args.filter_map(clap::Arg::get_long).collect();
            let shown: Vec<&String> = flags
                .iter()
                .filter(|flag| *flag != "help" && *flag != "version")
                .collect();
            if !declared.is_empty() {
                assert_eq!(shown, declared, "{name}, {heading}: {help}");
            }
        }
    }
}

#[test]
fn help_headings_group_flags_by_topic() {
    let commands = all_commands();
    let find_sections = |wanted: &str| {
        let command = commands.iter().find(|(name, _)| name == wanted);
        let help = command.unwrap().1.clone().render_long_help().to_string();
        help_sections(&help)
    };
    let headings =
        |name| -> Vec<String> { find_sections(name).into_iter().map(|(h, _)| h).collect() };
    assert_eq!(
        headings("seqsvr next"),
        ["Arguments", "Options", CONNECTION_HEADING, GLOBAL_HEADING]
    );
    assert_eq!(headings("seqsvr dev"), ["Options", "Ports", GLOBAL_HEADING]);
    assert_eq!(
        headings("seqsvr store"),
        ["Options", LIMITS_HEADING, "HTTP options", GLOBAL_HEADING]
    );
    assert_eq!(
        headings("seqsvr alloc"),
        [
            "Options",
            LIMITS_HEADING,
            "Redis options",
            "HTTP options",
            GLOBAL_HEADING
        ]
    );
    let flags: Vec<String> = find_sections("seqsvr next").swap_remove(1).1;
    assert_eq!(flags, ["count", "floor", "strict", "namespace", "help"]);
}

#[test]
fn help_first_line_is_short_and_imperative() {
    for (name, command) in all_commands() {
        let about = command.get_about().unwrap().to_string();
        let verb = about.split(' ').next().unwrap();
        let is_root = name == "seqsvr";
        assert!(
            is_root || !verb.ends_with('s'),
            "{name}: {about:?} is not imperative"
        );
        let args = command
            .get_arguments()
            .filter_map(|arg| Some((arg.get_id(), arg.get_help()?)));
        let args = args.map(|(id, help)| (format!("{name} {id}"), help.to_string()));
        for (what, line) in args.chain([(name.clone(), about)]) {
            assert!(
                line.chars().count() <= 80,
                "{what}: {line:?} has more than 80 characters"
            );
            assert!(!line.contains('\n'), "{what}: {line:?} is more than a line");
        }
    }
}

/// Returns the commands between backticks in a line of Markdown.
fn commands_in(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    spans.filter(|span| span.starts_with("seqsvr "))
}

#[test]
fn page_of_ids_has_each_row_once_and_only_accepted_commands() {
    let page = include_str!("../../../../docs/guide/ids.md");
    let expected = [('A', 13), ('B', 13), ('C', 5), ('D', 10), ('E', 20)];
    let expected = expected.map(|(letter, rows)| (1..=rows).map(move |n| format!("{letter}{n}")));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ")).collect();
    let rows = rows.iter().filter_map(|line| {
        let name = line.split(' ').nth(1)?;
        let number: Option<u32> = name.get(1..)?.parse().ok();
        number.map(|_| (name, line.split(" | ").nth(2).unwrap_or_default()))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    let names: Vec<&str> = rows.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected.into_iter().flatten().collect::<Vec<_>>());
    for (name, how) in rows {
        let has_answer = how.contains('`') || how.contains("](") || how.contains("not yet");
        assert!(has_answer, "{name}: {how:?}");
    }
    let mut commands = 0;
    for line in page.lines() {
        // In a block of a shell, or between backticks.
        let shell = line.strip_prefix("$ target/release/");
        for command in shell.into_iter().chain(commands_in(line)) {
            commands += 1;
            let parsed = CommandLine::try_parse_from(command.split(' '));
            assert!(parsed.is_ok(), "{command}: {}", parsed.err().unwrap());
        }
    }
    assert!(commands > 40, "{commands}");
}
