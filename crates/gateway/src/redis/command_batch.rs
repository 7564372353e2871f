//! One command batch: commands of a pipeline that run together, from their words to their replies.
//!
//! Invariant: a command's reply comes from items that were requested after every earlier batch was
//! answered. So on one connection a key's commands take effect in their order (see `batch_plan`).
//! And all its items are requested on behalf of the caller of its first command: a command that may
//! change the caller ends its batch.
//!
//! Schedule that breaks it: `AUTH a`, `INCR key`, `AUTH b`, `INCR key` arrive in one write. If one
//! batch had both INCRs, one of the callers would take both numbers.

use std::ops::Range;

use bytes::Bytes;
use seqsvr_access::{Caller, GrantTarget, NamespaceRight};
use seqsvr_net::LocalSequence;
use seqsvr_proto::convert::namespace_name;

use super::batch_plan::{BatchPlan, ItemPosition, NAMESPACE_GROUPS_MAX, RaiseStep};
use super::command::{IfNoneAnswer, ReadAnswer, RedisCommand, RejectedCommand};
use super::error::RedisError;
use super::executor::{BatchExecutor, BatchTarget};
use super::key::{RedisKey, parse_key};
use super::reply::ReplyBuffer;
use super::session::{NOAUTH, RedisSession};

/// Maximum commands or items of one batch; the next batch gets more. The thread answers those that
/// memory has without a break, while its other connections wait.
pub(super) const BATCH_COMMANDS_MAX: usize = 1_024;
/// Maximum commands of one batch without a caller: their answers are few bytes beyond the limit of
/// unsent ones.
const UNKNOWN_COMMANDS_MAX: usize = 64;

/// Commands for which a batch allocates memory at first.
const INITIAL_COMMANDS: usize = 128;
/// Estimate of the bytes of an item during its request: its words, its key, its answer.
const ITEM_BYTES_ESTIMATE: usize = 256;

/// The reply that a command waits for.
enum PendingReply<'a> {
    Take(TakeStep),
    Read(ReadAnswer, ItemPosition),
    GetMany(Vec<ItemPosition>),
    Exists(Vec<ItemPosition>),
    /// The result of the next RaiseTo. None: it raises in any case.
    Set(Option<IfNoneAnswer>),
    /// A command that needs nothing but the connection.
    Session(RedisCommand<'a>),
    Error(String),
}

/// The numbers of an item that one command takes: `count` numbers, of which the last is number
/// `last_ordinal` of the item.
struct TakeStep {
    item: ItemPosition,
    count: u32,
    last_ordinal: u32,
}

/// Commands that are executed together.
pub(super) struct CommandBatch<'a> {
    /// Who sent its commands; None: the connection has no identity.
    caller: Option<Caller>,
    plan: BatchPlan<'a>,
    pending_replies: Vec<PendingReply<'a>>,
    /// No more commands may be added.
    full: bool,
}

impl<'a> CommandBatch<'a> {
    /// Creates a batch with capacity for `commands` commands, or for a part of them: it may hold
    /// only one.
    pub(super) fn with_capacity(commands: usize, caller: Option<&Caller>) -> CommandBatch<'a> {
        let commands = commands.min(INITIAL_COMMANDS);
        CommandBatch {
            caller: caller.cloned(),
            plan: BatchPlan::with_capacity(commands),
            pending_replies: Vec::with_capacity(commands),
            full: false,
        }
    }

    /// Gathers the commands of `indices`, which `caller` sent, that are executed together. Returns
    /// also the index of the first command after them.
    pub(super) fn gather<W: Iterator<Item = &'a [u8]>>(
        indices: Range<usize>,
        words_of: impl Fn(usize) -> W,
        caller: Option<&Caller>,
    ) -> (CommandBatch<'a>, usize) {
        let mut batch = CommandBatch::with_capacity(indices.len(), caller);
        let mut words: Vec<&[u8]> = Vec::new();
        for index in indices.clone() {
            words.clear();
            words.extend(words_of(index));
            // An empty request has no answer, as in Redis.
            if !words.is_empty() && !batch.try_add(&words) {
                return (batch, index);
            }
        }
        (batch, indices.end)
    }

    /// Adds the command with these words. False: the command belongs to the next batch.
    pub(super) fn try_add(&mut self, words: &[&'a [u8]]) -> bool {
        if self.full
            || self.pending_replies.len() >= BATCH_COMMANDS_MAX
            || self.plan.item_count() >= BATCH_COMMANDS_MAX
        {
            return false;
        }
        let command = RedisCommand::parse(words);
        let planned = match &command {
            // Most commands take numbers. They are read where they lie: to move a command from one
            // enum to the next costs as much as the rest of this function.
            Ok(RedisCommand::Take { key, count }) if self.caller.is_some() => {
                self.plan_take(key, *count)
            }
            _ => self.plan_other(command),
        };
        match planned {
            Ok(true) => {}
            // The next batch could not take it either.
            Ok(false) if self.pending_replies.is_empty() => {
                let text = format!(
                    "ERR keys of more than {NAMESPACE_GROUPS_MAX} namespaces in one command"
                );
                self.pending_replies.push(PendingReply::Error(text));
            }
            Ok(false) => return false,
            Err(text) => self.pending_replies.push(PendingReply::Error(text)),
        }
        true
    }

    /// Adds a take to the plan, and the place of its reply. False: it belongs to the next batch.
    ///
    /// # Errors
    /// The text of the reply.
    fn plan_take(&mut self, key: &'a [u8], count: u32) -> Result<bool, String> {
        let key = &parse_key(key)?;
        let Some((item, last_ordinal)) = self.plan.try_add_take(key, count) else {
            return Ok(false);
        };
        self.pending_replies.push(PendingReply::Take(TakeStep {
            item,
            count,
            last_ordinal,
        }));
        Ok(true)
    }

    /// Adds any command to the plan, and the place of its reply. False: it belongs to the next
    /// batch.
    ///
    /// # Errors
    /// The text of the reply.
    fn plan_other(
        &mut self,
        command: Result<RedisCommand<'a>, RejectedCommand>,
    ) -> Result<bool, String> {
        let is_open = command.as_ref().is_ok_and(RedisCommand::is_open_to_unknown);
        if self.caller.is_none() && !is_open {
            self.full = self.pending_replies.len() + 1 >= UNKNOWN_COMMANDS_MAX;
            return Err(NOAUTH.to_owned());
        }
        let command = command.map_err(|rejected| rejected.text)?;
        // These commands may change the replies to the commands after them, or have long replies:
        // those of one batch may wait beyond the limit of unsent bytes.
        self.full = command.has_long_answer()
            || matches!(
                command,
                RedisCommand::Multi
                    | RedisCommand::Auth { .. }
                    | RedisCommand::Hello(_)
                    | RedisCommand::RejectedAuth(_)
                    | RedisCommand::Reset
                    | RedisCommand::Quit
                    | RedisCommand::HttpRequest
            );
        let plan = &mut self.plan;
        let reply = match command {
            RedisCommand::Take { key, count } => return self.plan_take(key, count),
            RedisCommand::Read { key, answer } => {
                let key = parse_key(key)?;
                if answer.is_of_set() {
                    check_raise(self.caller.as_ref(), &key)?;
                }
                let item = plan.try_add_read(&key);
                item.map(|item| PendingReply::Read(answer, item))
            }
            RedisCommand::GetMany { keys } => plan_reads(plan, &keys)?.map(PendingReply::GetMany),
            RedisCommand::Exists { keys } => plan_reads(plan, &keys)?.map(PendingReply::Exists),
            RedisCommand::Set { key, value } => plan_raise(plan, key, value, None)?,
            RedisCommand::SetIfNone { key, value, answer } => {
                plan_raise(plan, key, value, Some(answer))?
            }
            other => Some(PendingReply::Session(other)),
        };
        let is_added = reply.is_some();
        self.pending_replies.extend(reply);
        Ok(is_added)
    }

    /// Returns the number of commands, or of items if they are more.
    pub(super) fn command_count(&self) -> usize {
        self.pending_replies.len().max(self.plan.item_count())
    }

    /// Returns an estimate of the bytes of its items and of their answers during execution. Without
    /// a caller it has no items.
    pub(super) fn estimated_bytes(&self) -> usize {
        match self.caller {
            Some(_) => self.command_count() * ITEM_BYTES_ESTIMATE,
            None => 0,
        }
    }

    /// Rejects each command that needs a number with `text`, and answers the others.
    pub(super) fn reject_items(
        self,
        text: &str,
        sequence: &impl LocalSequence,
        session: &mut RedisSession<'_>,
        replies: &mut ReplyBuffer,
    ) {
        for reply in self.pending_replies {
            match reply {
                PendingReply::Session(command) => {
                    session.answer_command(&command, sequence, replies);
                }
                PendingReply::Error(text) => replies.write_error(&text),
                _ => replies.write_error(text),
            }
        }
    }

    /// Executes the commands, whose words are parts of `data`, and writes their replies.
    pub(super) async fn execute<S: LocalSequence>(
        self,
        target: &BatchTarget<'_, S>,
        data: &Bytes,
        session: &mut RedisSession<'_>,
        replies: &mut ReplyBuffer,
    ) {
        let Some(caller) = self.caller.clone() else {
            return self.reject_items(NOAUTH, target.sequence, session, replies);
        };
        let executor = BatchExecutor {
            target,
            caller: &caller,
        };
        let CommandBatch {
            plan,
            pending_replies,
            ..
        } = self;
        let takes = executor.take_numbers(data, &plan.takes).await;
        let reads = executor.read_current(data, &plan.reads).await;
        let mut raised = executor.raise_keys(data, &plan.raises).await.into_iter();
        for reply in pending_replies {
            match reply {
                PendingReply::Take(step) => {
                    let TakeStep {
                        item,
                        count,
                        last_ordinal,
                    } = step;
                    let group = &plan.takes[item.group as usize];
                    let count_sum = group.counts[item.index as usize];
                    let last = takes.last_number(item, count_sum, last_ordinal);
                    // The commands together request more than the namespace issues at once: request
                    // the numbers of each alone.
                    let last = match last {
                        Err(error) if error.may_succeed_with_fewer() && count < count_sum => {
                            executor.take_single(data, group.key(item), count).await
                        }
                        other => other,
                    };
                    match last {
                        Ok(last) => replies.write_integer(last),
                        Err(error) => replies.write_error(&error.to_reply_text()),
                    }
                }
                PendingReply::Read(answer, item) => match reads.result(item) {
                    Ok(current) => write_read(answer, current, replies),
                    Err(error) => replies.write_error(&error.to_reply_text()),
                },
                // As in Redis, one error is the reply to the whole command.
                PendingReply::GetMany(items) => {
                    match items.iter().try_for_each(|i| reads.result(*i).map(drop)) {
                        Err(error) => replies.write_error(&error.to_reply_text()),
                        Ok(()) => {
                            replies.begin_array(items.len());
                            for item in items {
                                match reads.result(item) {
                                    Ok(Some(n)) => replies.write_bulk_number(n),
                                    Ok(None) | Err(_) => replies.write_nil(),
                                }
                            }
                        }
                    }
                }
                PendingReply::Exists(items) => {
                    match items.iter().try_for_each(|i| reads.result(*i).map(drop)) {
                        Err(error) => replies.write_error(&error.to_reply_text()),
                        Ok(()) => {
                            let has_number =
                                |i: &&ItemPosition| matches!(reads.result(**i), Ok(Some(_)));
                            replies.write_integer(items.iter().filter(has_number).count() as u64);
                        }
                    }
                }
                PendingReply::Set(if_none) => match raised.next() {
                    Some(Ok(has_raised)) => write_set(if_none, has_raised, replies),
                    Some(Err(error)) => replies.write_error(&error.to_reply_text()),
                    None => replies.write_error("ERR a SET was not answered"),
                },
                PendingReply::Session(command) => {
                    session.answer_command(&command, target.sequence, replies);
                }
                PendingReply::Error(text) => replies.write_error(&text),
            }
        }
    }
}

/// Writes the answer to a command that read the number of a key.
fn write_read(answer: ReadAnswer, current: Option<u64>, replies: &mut ReplyBuffer) {
    match (answer, current) {
        (ReadAnswer::Number, Some(n)) => replies.write_bulk_number(n),
        (ReadAnswer::Number, None) => replies.write_nil(),
        (ReadAnswer::Type, Some(_)) => replies.write_simple("string"),
        (ReadAnswer::Type, None) => replies.write_simple("none"),
        (ReadAnswer::LifeTime, Some(_)) => replies.write_signed(-1),
        (ReadAnswer::LifeTime, None) => replies.write_signed(-2),
        (ReadAnswer::Persist, _) => replies.write_integer(0),
        (ReadAnswer::Length, current) => {
            let digits = current.and_then(u64::checked_ilog10);
            replies.write_integer(digits.map_or(0, |digits| u64::from(digits) + 1));
        }
        (ReadAnswer::Encoding, Some(_)) => replies.write_bulk(b"int"),
        (ReadAnswer::ReferenceCount, Some(_)) => replies.write_integer(1),
        (ReadAnswer::Encoding | ReadAnswer::ReferenceCount, None) => replies.write_nil(),
        (ReadAnswer::SetZero, None) => replies.write_simple("OK"),
        (ReadAnswer::SetZero, Some(n)) => {
            replies.write_error(&RedisError::below_current(n, 0).to_reply_text());
        }
        (ReadAnswer::ZeroIfNone(form), current) => {
            write_set(Some(form), current.is_none(), replies);
        }
    }
}

/// Writes the answer to a SET that raised the number of a key, or found one.
fn write_set(if_none: Option<IfNoneAnswer>, has_raised: bool, replies: &mut ReplyBuffer) {
    match (if_none, has_raised) {
        (Some(IfNoneAnswer::Integer), _) => replies.write_integer(has_raised.into()),
        (Some(IfNoneAnswer::Status), false) => replies.write_nil(),
        _ => replies.write_simple("OK"),
    }
}

/// Answers a command that arrived alone, if it takes numbers and memory has them: most connections
/// send one command after the other, and need no batch. False: nothing was done.
pub(super) fn try_execute_single<'a, S: LocalSequence>(
    mut words: impl ExactSizeIterator<Item = &'a [u8]>,
    target: &BatchTarget<'_, S>,
    session: &RedisSession<'_>,
    replies: &mut ReplyBuffer,
) -> bool {
    if session.transaction.is_some() {
        return false;
    }
    // INCR key, or INCRBY key count.
    let mut words_buffer = [&b""[..]; 3];
    let Some(words_buffer) = words_buffer.get_mut(..words.len()) else {
        return false;
    };
    words_buffer.fill_with(|| words.next().unwrap_or_default());
    let Ok(RedisCommand::Take { key, count }) = RedisCommand::parse(words_buffer) else {
        return false;
    };
    let (Some(caller), Ok(parsed)) = (session.identity.caller(), parse_key(key)) else {
        return false;
    };
    let (sequence, namespace) = (target.sequence, parsed.namespace.unwrap_or_default());
    let numbers = sequence.try_next(caller, namespace, parsed.key, count);
    numbers.is_some_and(|numbers| {
        replies.write_integer(numbers.last);
        true
    })
}

/// Checks that the caller of a SET may raise the key. A SET of 0 raises nothing: it makes no call
/// that would check it.
///
/// # Errors
/// The text of the reply, which is that of the service.
fn check_raise(caller: Option<&Caller>, key: &RedisKey<'_>) -> Result<(), String> {
    let caller = caller.ok_or(NOAUTH)?;
    let namespace = namespace_name(key.namespace.unwrap_or_default(), key.key);
    caller
        .check_right_on(NamespaceRight::Raise, GrantTarget::Namespace(namespace))
        .map_err(|missing| format!("NOPERM {missing}"))
}

/// Adds reads of all keys to the plan. None: they belong to the next batch.
fn plan_reads<'a>(
    plan: &mut BatchPlan<'a>,
    keys: &[&'a [u8]],
) -> Result<Option<Vec<ItemPosition>>, String> {
    let parsed_keys: Vec<RedisKey<'a>> = keys
        .iter()
        .map(|key| parse_key(key))
        .collect::<Result<_, _>>()?;
    Ok(parsed_keys
        .iter()
        .map(|key| plan.try_add_read(key))
        .collect())
}

/// Adds a raise to the plan. None: it belongs to the next batch.
fn plan_raise<'a>(
    plan: &mut BatchPlan<'a>,
    key: &'a [u8],
    value: u64,
    if_none: Option<IfNoneAnswer>,
) -> Result<Option<PendingReply<'a>>, String> {
    let raise = RaiseStep {
        key: parse_key(key)?,
        value,
        if_none: if_none.is_some(),
    };
    let is_added = plan.try_add_raise(raise);
    Ok(is_added.then_some(PendingReply::Set(if_none)))
}
