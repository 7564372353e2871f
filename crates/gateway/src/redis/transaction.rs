//! The commands between MULTI and EXEC.
//!
//! Invariant: nothing of a transaction that is rejected, discarded or cut takes, reads or sets a
//! number. A command after MULTI is only copied to the queue, and EXEC alone takes the queue.
//!
//! Schedule that breaks it: a client sends `MULTI`, `INCR a`, `NOSUCH`, `EXEC` in one write. If
//! `INCR a` joins the batch of the commands before `MULTI`, or the way of single commands answers
//! it, it takes a number though `EXEC` is answered with an error; the client repeats the
//! transaction and takes another. The same if `EXEC` arrives alone after the connection was cut.
//! So `MULTI` ends its batch, the connection executes neither batches nor single commands while
//! there is a transaction, and the transaction is dropped with its connection.

use std::ops::Range;

use bytes::Bytes;

use super::batch_plan::NAMESPACE_GROUPS_MAX;
use super::command::RedisCommand;
use super::key::parse_key;
use super::shared::TOO_MANY_BYTES;

/// Maximum commands of a transaction; it is rejected above it.
const QUEUE_COMMANDS_MAX: usize = 1_024;
/// Maximum bytes of a queue, each word with [`WORD_BYTES`] more; the transaction is rejected above
/// it.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// Bytes that a word takes in the queue and in its answer, beyond its own.
const WORD_BYTES: usize = 16;
/// Estimate of the bytes of a word and of its answer during execution.
const EXECUTED_WORD_BYTES: usize = 256;
/// Estimate of the bytes of a long answer, of INFO for example.
const LONG_ANSWER_BYTES: usize = 4 << 10;

/// The commands of a connection since its MULTI.
#[derive(Default)]
pub(super) struct Transaction {
    /// Words of all commands, without a gap.
    bytes: Vec<u8>,
    words: Vec<Range<u32>>,
    /// The number of words up to the end of each command.
    command_ends: Vec<u32>,
    /// Commands with a long answer.
    long_answers: usize,
    /// Different namespaces of the keys; an empty text is `keys`.
    namespaces: Vec<String>,
    /// A command was rejected, and so is EXEC. The queue is empty.
    rejected: bool,
}

/// The effect of a command on a transaction.
pub(super) enum QueueOutcome {
    Queued,
    /// The command is no part of a transaction; the text is its answer, and EXEC is rejected.
    Rejected(String),
    /// AUTH or HELLO, which fails in a transaction; the text is its answer, and EXEC is rejected.
    RejectedAuth(String),
    /// EXEC: the transaction ends and is executed.
    Executed,
    /// DISCARD: the transaction ends.
    Discarded,
    /// EXEC with arguments: the transaction ends and is not executed; the text is the answer.
    Aborted(String),
    /// The transaction ends, and the command is executed without it.
    Left,
}

/// The queue of a transaction that is executed.
pub(super) struct QueuedCommands {
    /// Bytes of all words.
    pub(super) data: Bytes,
    words: Vec<Range<u32>>,
    command_ends: Vec<u32>,
    /// Commands with a long answer.
    long_answers: usize,
}

impl Transaction {
    /// Adds a command, or ends the transaction with it. The queue grows only if it `has_room`.
    pub(super) fn add_command(&mut self, words: &[&[u8]], has_room: bool) -> QueueOutcome {
        let command = match RedisCommand::parse(words) {
            Ok(command) => command,
            Err(rejected) if rejected.may_be_queued => return self.push_words(words, has_room),
            Err(rejected) if words[0].eq_ignore_ascii_case(b"EXEC") => {
                return QueueOutcome::Aborted(rejected.text);
            }
            Err(rejected) => return self.reject(rejected.text),
        };
        match command {
            RedisCommand::Exec => QueueOutcome::Executed,
            RedisCommand::Discard => QueueOutcome::Discarded,
            RedisCommand::Reset | RedisCommand::Quit | RedisCommand::HttpRequest => {
                QueueOutcome::Left
            }
            // What they change holds for the commands after them, and they may fail. So a
            // transaction has one identity from MULTI to EXEC.
            RedisCommand::Auth { .. } | RedisCommand::Hello(_) => {
                self.reject_auth(not_in_transaction(words[0]))
            }
            RedisCommand::RejectedAuth(text) => self.reject_auth(text),
            RedisCommand::Multi | RedisCommand::Select => self.reject(not_in_transaction(words[0])),
            command => match self.check_keys(&command) {
                Ok(()) => {
                    self.long_answers += usize::from(command.has_long_answer());
                    self.push_words(words, has_room)
                }
                Err(text) => self.reject(text),
            },
        }
    }

    /// Rejects the transaction, and frees its queue; returns the answer to the last command.
    fn reject(&mut self, text: String) -> QueueOutcome {
        *self = Transaction {
            rejected: true,
            ..Transaction::default()
        };
        QueueOutcome::Rejected(text)
    }

    /// Rejects the transaction because of an AUTH or HELLO.
    fn reject_auth(&mut self, text: String) -> QueueOutcome {
        self.reject(String::new());
        QueueOutcome::RejectedAuth(text)
    }

    /// Returns the bytes that the queue holds.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.words.capacity() * WORD_BYTES
    }

    /// Returns the queue for its execution.
    ///
    /// # Errors
    /// A command was rejected; the text is the answer to EXEC.
    pub(super) fn into_queue(self) -> Result<QueuedCommands, &'static str> {
        match self.rejected {
            true => Err("EXECABORT Transaction discarded because of previous errors."),
            false => Ok(QueuedCommands {
                data: self.bytes.into(),
                words: self.words,
                command_ends: self.command_ends,
                long_answers: self.long_answers,
            }),
        }
    }

    /// Checks the keys of a command, and notes their namespaces.
    fn check_keys(&mut self, command: &RedisCommand<'_>) -> Result<(), String> {
        for key in command.keys() {
            let namespace = parse_key(key)?.namespace.unwrap_or_default();
            if self.rejected || self.namespaces.iter().any(|noted| noted == namespace) {
                continue;
            }
            if self.namespaces.len() == NAMESPACE_GROUPS_MAX {
                return Err(format!(
                    "ERR keys of more than {NAMESPACE_GROUPS_MAX} namespaces in one transaction; send several"
                ));
            }
            self.namespaces.push(namespace.to_owned());
        }
        Ok(())
    }

    /// Copies the words of a command to the queue. As in Redis, a rejected transaction answers its
    /// commands as if it queued them.
    fn push_words(&mut self, words: &[&[u8]], has_room: bool) -> QueueOutcome {
        if self.rejected {
            return QueueOutcome::Queued;
        }
        if !has_room {
            return self.reject(TOO_MANY_BYTES.to_owned());
        }
        if self.command_ends.len() == QUEUE_COMMANDS_MAX {
            return self.reject(format!(
                "ERR a transaction of more than {QUEUE_COMMANDS_MAX} commands; send several, or a pipeline without a transaction"
            ));
        }
        let bytes: usize = words.iter().map(|word| word.len()).sum();
        let word_count = self.words.len() + words.len();
        if self.bytes.len() + bytes + word_count * WORD_BYTES > QUEUE_BYTES_MAX {
            return self.reject(format!(
                "ERR a transaction of more than {QUEUE_BYTES_MAX} bytes, with {WORD_BYTES} for each word; send several"
            ));
        }
        for word in words {
            let begin = self.bytes.len() as u32;
            self.bytes.extend_from_slice(word);
            self.words.push(begin..self.bytes.len() as u32);
        }
        self.command_ends.push(self.words.len() as u32);
        QueueOutcome::Queued
    }
}

/// Returns the answer to a command that may not be part of a transaction.
fn not_in_transaction(name: &[u8]) -> String {
    let name = name.escape_ascii().to_string().to_lowercase();
    format!("ERR Command '{name}' not allowed inside a transaction")
}

impl QueuedCommands {
    /// Returns the number of commands.
    pub(super) fn command_count(&self) -> usize {
        self.command_ends.len()
    }

    /// Returns the words of the command `index`.
    pub(super) fn command_words(&self, index: usize) -> impl Iterator<Item = &[u8]> {
        let begin = index.checked_sub(1).map_or(0, |i| self.command_ends[i]);
        let words = &self.words[begin as usize..self.command_ends[index] as usize];
        words
            .iter()
            .map(|word| &self.data[word.start as usize..word.end as usize])
    }

    /// Returns an estimate of the bytes of its commands and of their answers during execution.
    pub(super) fn estimated_bytes(&self) -> usize {
        self.data.len()
            + self.words.len() * EXECUTED_WORD_BYTES
            + self.long_answers * LONG_ANSWER_BYTES
    }
}
