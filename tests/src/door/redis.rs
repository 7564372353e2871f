//! The crate `redis`: one connection, on which calls do not wait for each other.

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult};
use seqsvr_check::Answer;
use seqsvr_client::Key;
use tokio::sync::Mutex;

use super::{Tried, again};
use crate::caller::{Ask, next};
use crate::subject::Subject;

pub(super) struct Node {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl Node {
    pub(super) fn new(port: u16) -> Node {
        let client = Client::open(("127.0.0.1", port));
        Node {
            client: client.expect("a good address"),
            connection: Mutex::new(None),
        }
    }

    pub(super) async fn ask(&self, ask: Ask, items: &[&Subject]) -> Vec<Tried> {
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(error) => return again(items, &error.to_string()),
        };
        let tried = match ask {
            Ask::Next(count) => {
                let take = |subject| take(connection.clone(), count, subject);
                join_all(items.iter().copied().map(take)).await
            }
            Ask::Current => current(connection, items).await,
            Ask::RaiseTo(asked) => vec![set(connection, asked, items[0]).await],
        };
        // After a lost connection the next attempt uses a new one.
        if tried.iter().any(|tried| matches!(tried, Tried::Again(_))) {
            *self.connection.lock().await = None;
        }
        tried
    }

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let mut connection = self.connection.lock().await;
        match &*connection {
            Some(connection) => Ok(connection.clone()),
            None => {
                let new = self.client.get_multiplexed_async_connection().await?;
                Ok(connection.insert(new).clone())
            }
        }
    }
}

async fn take(mut connection: MultiplexedConnection, count: u32, subject: &Subject) -> Tried {
    let mut command = match count {
        1 => redis::cmd("INCR"),
        _ => redis::cmd("INCRBY"),
    };
    command.arg(key(subject));
    if count != 1 {
        command.arg(count);
    }
    let last: RedisResult<u64> = command.query_async(&mut connection).await;
    tried(last.map(|last| {
        let first = last - u64::from(count - 1) * subject.stride.get();
        next(first, last, subject)
    }))
}

/// `GET` and `MGET` do not distinguish a number from a bound, so each value is recorded as a bound.
async fn current(mut connection: MultiplexedConnection, items: &[&Subject]) -> Vec<Tried> {
    let answer = |value: Option<u64>| value.map_or(Answer::Never, Answer::AtMost);
    if let [one] = items {
        let value = Cmd::get(key(one)).query_async(&mut connection).await;
        return vec![tried(value.map(answer))];
    }
    let keys: Vec<Vec<u8>> = items.iter().map(|item| key(item)).collect();
    let values = Cmd::mget(keys).query_async(&mut connection).await;
    let values: Vec<Option<u64>> = match values {
        Ok(values) => values,
        Err(error) => {
            return items.iter().map(|_| tried(Err(error.clone()))).collect();
        }
    };
    values
        .into_iter()
        .map(|value| tried(Ok(answer(value))))
        .collect()
}

async fn set(mut connection: MultiplexedConnection, asked: u64, subject: &Subject) -> Tried {
    let set = Cmd::set(key(subject), asked)
        .query_async(&mut connection)
        .await;
    let to = match set {
        Ok(()) => Ok(subject.round_up(asked)),
        // The error text contains the present number.
        Err(error) => number_already(&error).ok_or(error),
    };
    tried(to.map(|to| Answer::RaiseTo { asked, to }))
}

fn number_already(error: &RedisError) -> Option<u64> {
    let text = error.detail()?;
    let (_, rest) = text.split_once("number is ")?;
    rest.split_once(" already")?.0.parse().ok()
}

fn tried(result: RedisResult<Answer>) -> Tried {
    match result {
        Ok(answer) => Tried::Done(Ok((None, answer))),
        Err(error) => {
            let again = error.code() == Some("TRYAGAIN")
                || error.is_io_error()
                || error.is_connection_dropped()
                || error.is_timeout()
                || matches!(error.kind(), ErrorKind::Io);
            match again {
                true => Tried::Again(error.to_string()),
                false => Tried::Done(Err(error.to_string())),
            }
        }
    }
}

fn key(subject: &Subject) -> Vec<u8> {
    match &subject.key {
        Key::Uid(uid) => format!("@{}/{uid}", subject.namespace).into_bytes(),
        Key::Key(key) if subject.namespace == "keys" => key.to_vec(),
        Key::Key(key) => [b"@", subject.namespace.as_bytes(), b"/", key].concat(),
    }
}
