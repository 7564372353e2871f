//! The bounded queue above Raft, as plain data: what waits, and what the next entry carries.
//!
//! Invariant: an entry stays under [`ENTRY_BYTES_MAX`] and [`ENTRY_COMMANDS_MAX`]; commands of one
//! class leave in the order they came; no class waits without end.
//!
//! Order: raises come first, because callers run out of numbers without them, and with them the
//! commands of the arbiter and renewals of workers. Then come sections and workers that are opened
//! and closed; creations come last. Reordering
//! across classes is harmless: every command is fenced, and a sender waits for the reply to one
//! before it sends what builds on it. Each class left out of one entry has a quarter of the next
//! one to itself, the last class first. So a flood of the classes before it slows it down but never
//! stops it.

use std::collections::VecDeque;

use seqsvr_core::command::{Batch, Command};
use seqsvr_core::family::IdsCommand;
use seqsvr_core::{limit, planted};

use super::encoded_size;

/// Most bytes of an entry, with room for its own frame.
pub const ENTRY_BYTES_MAX: usize = 60 * 1024;
/// Most commands of an entry; the others wait for the next one.
pub const ENTRY_COMMANDS_MAX: usize = 4_096;
/// Most commands that may wait; the queue rejects more.
pub(super) const QUEUE_COMMANDS_MAX: usize = 32_768;
/// Most estimated bytes that may wait; the queue rejects more.
pub(super) const QUEUE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Number of classes of commands.
const CLASS_COUNT: usize = 3;

/// Commands waiting, each with what is needed to answer it.
#[derive(Debug)]
pub struct ProposalQueue<T> {
    classes: [VecDeque<(Command, usize, T)>; CLASS_COUNT],
    left_out: [bool; CLASS_COUNT],
    /// Entries in a row that took nothing of a class that waited. Builds with debug assertions
    /// count them.
    passed_over: [u32; CLASS_COUNT],
    commands: usize,
    bytes: usize,
}

/// Content of one entry, with the waiters in the order of its commands.
#[derive(Debug)]
pub struct GatheredEntry<T> {
    /// At least one command.
    pub batch: Batch,
    /// One waiter for each command.
    pub waiters: Vec<T>,
}

/// The queue accepts no more; it took none of the offered commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl<T> Default for ProposalQueue<T> {
    fn default() -> ProposalQueue<T> {
        ProposalQueue {
            classes: std::array::from_fn(|_| VecDeque::new()),
            left_out: [false; CLASS_COUNT],
            passed_over: [0; CLASS_COUNT],
            commands: 0,
            bytes: 0,
        }
    }
}

impl<T> ProposalQueue<T> {
    /// Takes all of the commands, or none.
    pub fn push(&mut self, items: Vec<(Command, T)>) -> Result<(), QueueFull> {
        let bytes: usize = items
            .iter()
            .map(|(c, _)| encoded_size::estimate_bytes(c))
            .sum();
        if self.commands + items.len() > QUEUE_COMMANDS_MAX || self.bytes + bytes > QUEUE_BYTES_MAX
        {
            return Err(QueueFull);
        }
        self.commands += items.len();
        self.bytes += bytes;
        for (command, waiter) in items {
            let (class, size) = (class_of(&command), encoded_size::estimate_bytes(&command));
            self.classes[class].push_back((command, size, waiter));
        }
        Ok(())
    }

    /// Takes what the next entry carries; None if nothing waits. Drops commands whose waiter is
    /// gone by `is_gone` without proposing them.
    pub fn gather(&mut self, is_gone: impl Fn(&T) -> bool) -> Option<GatheredEntry<T>> {
        let mut entry = EntryBuilder {
            commands: Vec::new(),
            waiters: Vec::new(),
            bytes: 0,
        };
        // Invariant: a class left out of one entry gets into the next one. Schedule that breaks it:
        // raises and section commands each fill an entry at every gather. If the classes left out
        // shared one quarter, section commands would fill it, and creations would wait without
        // bound. The last class comes first because all its commands are small: the quarter of
        // another one may be exceeded by a command of up to 43 KB, which still fits after this.
        let bytes_max = limit!(ENTRY_BYTES_MAX);
        let before = self.class_lengths();
        for class in (0..CLASS_COUNT).rev() {
            // As planted, raises and section commands share one quarter and leave nothing of it.
            let class = if planted!(ShareOneQuarter) {
                CLASS_COUNT - 1 - class
            } else {
                class
            };
            if self.left_out[class] {
                let used = if planted!(ShareOneQuarter) {
                    0
                } else {
                    entry.bytes
                };
                self.fill_entry(&mut entry, class, used + bytes_max / 4, &is_gone);
            }
        }
        for class in 0..CLASS_COUNT {
            self.fill_entry(&mut entry, class, bytes_max, &is_gone);
            self.left_out[class] = class > 0 && !self.classes[class].is_empty();
        }
        if cfg!(debug_assertions) {
            self.count_passed_over(before);
        }
        if entry.commands.is_empty() {
            return None;
        }
        let commands = entry.commands;
        Some(GatheredEntry {
            batch: Batch { commands },
            waiters: entry.waiters,
        })
    }

    /// Takes all waiters and empties the queue.
    pub fn drain(&mut self) -> Vec<T> {
        (self.commands, self.bytes) = (0, 0);
        let all = self.classes.iter_mut().flat_map(std::mem::take);
        all.map(|(_, _, waiter)| waiter).collect()
    }

    /// Returns how many commands wait.
    pub fn len(&self) -> usize {
        self.commands
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.commands == 0
    }

    fn class_lengths(&self) -> [usize; CLASS_COUNT] {
        std::array::from_fn(|class| self.classes[class].len())
    }

    /// Asserts that a class left out of one entry got into the next one.
    fn count_passed_over(&mut self, before: [usize; CLASS_COUNT]) {
        for (class, after) in self.class_lengths().into_iter().enumerate() {
            let is_passed_over = after > 0 && after == before[class];
            let count = &mut self.passed_over[class];
            *count = if is_passed_over { *count + 1 } else { 0 };
            assert!(
                *count <= 1,
                "class {class} was passed over {count} times in a row"
            );
        }
    }

    /// Moves commands of a class into the entry while it holds less than `bytes_max` bytes and has
    /// room.
    fn fill_entry(
        &mut self,
        entry: &mut EntryBuilder<T>,
        class: usize,
        bytes_max: usize,
        is_gone: &impl Fn(&T) -> bool,
    ) {
        while let Some((_, size, waiter)) = self.classes[class].front() {
            let (size, gone) = (*size, is_gone(waiter));
            // The greatest command is far below the bound, so an empty entry takes any.
            let has_room = entry.bytes < bytes_max
                && entry.bytes + size <= limit!(ENTRY_BYTES_MAX)
                && entry.commands.len() < ENTRY_COMMANDS_MAX;
            if !has_room && !gone {
                return;
            }
            let Some((command, _, waiter)) = self.classes[class].pop_front() else {
                return;
            };
            self.commands -= 1;
            self.bytes -= size;
            if !gone {
                entry.bytes += size;
                entry.commands.push(command);
                entry.waiters.push(waiter);
            }
        }
    }
}

struct EntryBuilder<T> {
    commands: Vec<Command>,
    waiters: Vec<T>,
    bytes: usize,
}

fn class_of(command: &Command) -> usize {
    match command {
        Command::Raise { .. } | Command::ExpireSession { .. } | Command::Assign { .. } => 0,
        // Holders run out of ticks without renewals, and time comes before what depends on it.
        Command::Ids(IdsCommand::RenewWorker { .. } | IdsCommand::AdvanceTime { .. }) => 0,
        Command::Ids(IdsCommand::AcquireWorker(_) | IdsCommand::ReleaseWorker { .. }) => 1,
        Command::Open { .. }
        | Command::CloseSection { .. }
        | Command::CloseSession { .. }
        | Command::MoveSlot { .. } => 1,
        Command::Init { .. }
        | Command::OpenSession(_)
        | Command::CreateNamespace(_)
        | Command::AlterNamespace { .. }
        | Command::ChangeNamespace { .. }
        | Command::SetLevel { .. }
        | Command::Ids(_) => 2,
    }
}
