//! One go: the commands of a pipeline that run together, from their words to their answers.
//!
//! Invariant: a command's answer comes from items that were requested after every earlier go was
//! answered. So on one connection a key's commands take effect in their order (see `plan`).

use bytes::Bytes;
use seqsvr_core::geometry::KEY_MAX;
use seqsvr_core::id::Uid;
use seqsvr_core::route::KeyRef;
use seqsvr_proto::LocalSequence;

use super::asked::Asked;
use super::command::Command;
use super::place::{Key, Place};
use super::plan::{GROUPS_MAX, Item, Plan};
use super::reply::Replies;
use super::session::Session;

/// Commands or items from which on no more are added: those that memory has are answered without a
/// break, while other connections of the thread wait.
pub(super) const GO_MAX: usize = 1_024;

/// Commands or items at one time after which other tasks have their turn.
pub(super) const TURN_ITEMS: usize = 256;
/// Commands for which there is room at first.
const ROOM: usize = 128;
/// Estimate of the bytes of an item during its request: its words, its place, its answer.
const ITEM_BYTES: usize = 256;

/// The result that a command waits for.
enum Step<'a> {
    Take(Taken<'a>),
    Get(Item),
    GetAll(Vec<Item>),
    Exists(Vec<Item>),
    Type(Item),
    /// The next of the sets.
    Set,
    /// A command that needs nothing but the connection.
    Talk(Command<'a>),
    Refused(String),
}

/// So many numbers of an item, up to the `upto`th of it.
struct Taken<'a> {
    place: Place<'a>,
    item: Item,
    count: u32,
    upto: u32,
}

/// A RaiseTo.
pub(super) struct Set<'a> {
    pub(super) place: Place<'a>,
    pub(super) value: u64,
}

/// Commands to be executed together.
pub(super) struct Go<'a> {
    plan: Plan<'a>,
    sets: Vec<Set<'a>>,
    steps: Vec<Step<'a>>,
    /// Nothing more may be added.
    full: bool,
}

impl<'a> Go<'a> {
    /// Creates a go with room for so many commands, or for some of them: it may hold one only.
    pub(super) fn with_capacity(commands: usize) -> Go<'a> {
        let commands = commands.min(ROOM);
        Go {
            plan: Plan::with_capacity(commands),
            sets: Vec::new(),
            steps: Vec::with_capacity(commands),
            full: false,
        }
    }

    /// Adds the command with these words. False: it belongs to the next go.
    pub(super) fn add(&mut self, words: &[&'a [u8]], session: &Session<'_>) -> bool {
        if self.full || self.steps.len() >= GO_MAX || self.plan.len() >= GO_MAX {
            return false;
        }
        let command = match Command::parse(words) {
            Ok(command) => command,
            Err(text) => {
                self.steps.push(Step::Refused(text));
                return true;
            }
        };
        if let Some(refused) = session.refuses(&command) {
            self.steps.push(Step::Refused(refused.to_owned()));
            return true;
        }
        // Commands after these may have another answer.
        self.full = matches!(
            command,
            Command::Auth { .. }
                | Command::Hello(_)
                | Command::Reset
                | Command::Quit
                | Command::Http
        );
        match self.step(command) {
            Ok(Some(step)) => self.steps.push(step),
            // The next go could not take it either.
            Ok(None) if self.steps.is_empty() => {
                let text = format!("ERR keys of more than {GROUPS_MAX} namespaces in one command");
                self.steps.push(Step::Refused(text));
            }
            Ok(None) => return false,
            Err(text) => self.steps.push(Step::Refused(text)),
        }
        true
    }

    /// Makes the step of a command. None: it belongs to the next go.
    fn step(&mut self, command: Command<'a>) -> Result<Option<Step<'a>>, String> {
        let plan = &mut self.plan;
        Ok(match command {
            Command::Take { key, count } => {
                let place = place(key)?;
                plan.take(place, count).map(|(item, upto)| {
                    Step::Take(Taken {
                        place,
                        item,
                        count,
                        upto,
                    })
                })
            }
            Command::Get { key } => plan.read(place(key)?).map(Step::Get),
            Command::Type { key } => plan.read(place(key)?).map(Step::Type),
            Command::GetAll { keys } => read(plan, &keys)?.map(Step::GetAll),
            Command::Exists { keys } => read(plan, &keys)?.map(Step::Exists),
            Command::Set { key, value } => {
                let place = place(key)?;
                plan.set(place).then(|| {
                    self.sets.push(Set { place, value });
                    Step::Set
                })
            }
            other => Some(Step::Talk(other)),
        })
    }

    /// Returns the number of commands, or of items if they are more.
    pub(super) fn len(&self) -> usize {
        self.steps.len().max(self.plan.len())
    }

    /// Returns an estimate of the bytes of its items and their answers during the go.
    pub(super) fn bytes(&self) -> usize {
        self.len() * ITEM_BYTES
    }

    /// Rejects each command that needs a number, because there is no room.
    pub(super) fn refuse(self, session: &mut Session<'_>, replies: &mut Replies) {
        for step in self.steps {
            match step {
                Step::Talk(command) => session.answer(&command, replies),
                Step::Refused(text) => replies.error(&text),
                _ => replies.error("TRYAGAIN this server holds too many bytes of requests and answers; read the answers, or retry later"),
            }
        }
    }

    /// Executes the commands, whose words are parts of `data`, and adds their answers.
    pub(super) async fn run<S: LocalSequence>(
        self,
        asked: &Asked<'_, S>,
        data: &Bytes,
        session: &mut Session<'_>,
        replies: &mut Replies,
    ) {
        let Go {
            plan, sets, steps, ..
        } = self;
        let takes = asked.take(data, &plan.takes).await;
        let reads = asked.read(data, &plan.reads).await;
        let mut raised = asked.set(data, &sets).await.into_iter();
        for step in steps {
            match step {
                Step::Take(taken) => {
                    let Taken {
                        place,
                        item,
                        count,
                        upto,
                    } = taken;
                    let sum = plan.takes[item.group as usize].counts[item.item as usize];
                    let last = takes.last(item, sum, upto);
                    // Together they are more than the namespace gives at once: one by one.
                    let last = match last {
                        Err(refusal) if refusal.is_of_many() && count < sum => {
                            asked.take_one(data, place, count).await
                        }
                        other => other,
                    };
                    match last {
                        Ok(last) => replies.integer(last),
                        Err(refusal) => replies.error(&refusal.line()),
                    }
                }
                Step::Get(item) => match reads.current(item) {
                    Ok(Some(n)) => replies.bulk_number(n),
                    Ok(None) => replies.nil(),
                    Err(refusal) => replies.error(&refusal.line()),
                },
                Step::Type(item) => match reads.current(item) {
                    Ok(Some(_)) => replies.simple("string"),
                    Ok(None) => replies.simple("none"),
                    Err(refusal) => replies.error(&refusal.line()),
                },
                // Redis answers these as a whole.
                Step::GetAll(items) => match items.iter().try_for_each(|i| reads.known(*i)) {
                    Err(refusal) => replies.error(&refusal.line()),
                    Ok(()) => {
                        replies.array(items.len());
                        for item in items {
                            match reads.current(item) {
                                Ok(Some(n)) => replies.bulk_number(n),
                                Ok(None) | Err(_) => replies.nil(),
                            }
                        }
                    }
                },
                Step::Exists(items) => match items.iter().try_for_each(|i| reads.known(*i)) {
                    Err(refusal) => replies.error(&refusal.line()),
                    Ok(()) => {
                        let there = |i: &&Item| matches!(reads.current(**i), Ok(Some(_)));
                        replies.integer(items.iter().filter(there).count() as u64);
                    }
                },
                Step::Set => match raised.next() {
                    Some(Ok(())) => replies.simple("OK"),
                    Some(Err(refusal)) => replies.error(&refusal.line()),
                    None => replies.error("ERR a SET was not answered"),
                },
                Step::Talk(command) => session.answer(&command, replies),
                Step::Refused(text) => replies.error(&text),
            }
        }
    }
}

/// Answers a command that came alone, if it takes numbers and memory has them: most connections
/// send one after the other, and need no go. False: nothing was done.
pub(super) fn at_once<'a, S: LocalSequence>(
    mut words: impl ExactSizeIterator<Item = &'a [u8]>,
    sequence: &S,
    session: &Session<'_>,
    replies: &mut Replies,
) -> bool {
    // INCR key, or INCRBY key count.
    let mut room = [&b""[..]; 3];
    let Some(room) = room.get_mut(..words.len()) else {
        return false;
    };
    room.fill_with(|| words.next().unwrap_or_default());
    let Ok(command) = Command::parse(room) else {
        return false;
    };
    let Command::Take { key, count } = command else {
        return false;
    };
    let (None, Ok(place)) = (session.refuses(&command), place(key)) else {
        return false;
    };
    let key = match place.key {
        Key::Uid(uid) => KeyRef::Uid(Uid(uid)),
        Key::Bytes(key) => KeyRef::Key(key),
    };
    let taken = sequence.take(place.namespace.unwrap_or_default(), key, count);
    taken.is_some_and(|taken| {
        replies.integer(taken.last);
        true
    })
}

fn place(key: &[u8]) -> Result<Place<'_>, String> {
    let place = Place::of(key)?;
    match place.key {
        Key::Bytes([]) => Err("ERR an empty key: a key has 1 to 128 bytes".into()),
        Key::Bytes(key) if key.len() > KEY_MAX => Err(format!(
            "ERR a key of {} bytes: a key has 1 to {KEY_MAX} bytes",
            key.len()
        )),
        _ => Ok(place),
    }
}

fn read<'a>(plan: &mut Plan<'a>, keys: &[&'a [u8]]) -> Result<Option<Vec<Item>>, String> {
    let places: Vec<Place<'a>> = keys
        .iter()
        .map(|key| place(key))
        .collect::<Result<_, _>>()?;
    Ok(places.into_iter().map(|place| plan.read(place)).collect())
}
