//! The commands of README, `docs/guide` and `docs/operations`, as a new user runs them.
//!
//! Each part of a page is played in an empty directory and in a network of its own, so all parts
//! use the ports that the pages name. A block that no part plays is in `not_played.txt`.

mod page;
mod parts;
mod player;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use self::page::{CommandBlock, parse_page};
use self::parts::PARTS;
use self::player::{ISOLATION, PartCommands, can_play, say};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const NOT_PLAYED: &str = include_str!("not_played.txt");
/// Parts that are played at the same time: they mostly wait.
const PLAYERS: usize = 4;

#[test]
fn blocks_of_pages_are_played_or_listed_with_a_reason() {
    let mut listed = not_played();
    let mut faults = Vec::new();
    let mut plays: BTreeMap<usize, PartCommands> = BTreeMap::new();
    for (page, text) in pages() {
        let (blocks, toml) = parse_page(&text);
        for block in blocks {
            let place = format!("{page}:{}", block.line);
            let is_block = |entry: &(&str, &str)| *entry == (&*page, &*block.first_line);
            if let Some(index) = listed.iter().position(is_block) {
                listed.remove(index);
                continue;
            }
            match part_of(&page, &block) {
                Some(part) if !block.commands.is_empty() => plays
                    .entry(part)
                    .or_insert_with(|| PartCommands::new(&PARTS[part], &toml))
                    .extend(&place, block.commands),
                _ => faults.push(format!("{place}: neither played nor listed")),
            }
        }
    }
    let gone = listed
        .iter()
        .map(|block| format!("{block:?} is in no page"));
    faults.extend(gone);
    let idle = (0..PARTS.len()).filter(|part| !plays.contains_key(part));
    faults.extend(idle.map(|part| format!("{}: a part without commands", PARTS[part].page)));
    if can_play() {
        faults.extend(play_all(plays.into_values()));
    } else {
        say(&format!(
            "SKIPPED: commands of pages: `{}` with `ip` (package iproute2) makes no network here",
            ISOLATION.join(" ")
        ));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Returns the page and the first line of each block in the list.
fn not_played() -> Vec<(&'static str, &'static str)> {
    let lines = NOT_PLAYED.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.map(|line| {
        let fields: Vec<&str> = line.splitn(3, " | ").collect();
        assert!(fields.len() == 3 && !fields[2].is_empty(), "{line}");
        (fields[0], fields[1])
    });
    fields.collect()
}

/// Returns the paths and texts of all pages.
fn pages() -> Vec<(String, String)> {
    let mut paths = vec!["README.md".to_owned()];
    for folder in ["docs/guide", "docs/operations"] {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            paths.push(format!("{folder}/{name}"));
        }
    }
    let read = |path: String| {
        let text = fs::read_to_string(Path::new(ROOT).join(&path)).unwrap();
        (path, text)
    };
    paths.into_iter().map(read).collect()
}

/// Returns the last part of the page that begins above the block.
fn part_of(page: &str, block: &CommandBlock) -> Option<usize> {
    PARTS.iter().rposition(|part| {
        let begins_above = block.headings.iter().any(|heading| heading == part.from);
        part.page == page && (part.from.is_empty() || begins_above)
    })
}

/// Plays all parts. Returns what differs from the pages.
fn play_all(plays: impl Iterator<Item = PartCommands> + Send) -> Vec<String> {
    let (plays, faults) = (Mutex::new(plays), Mutex::new(Vec::new()));
    let next = || plays.lock().unwrap().next();
    let play_rest = || {
        while let Some(part) = next() {
            let found = part.play();
            faults.lock().unwrap().extend(found);
        }
    };
    std::thread::scope(|scope| (0..PLAYERS).for_each(|_| drop(scope.spawn(play_rest))));
    faults.into_inner().unwrap()
}
