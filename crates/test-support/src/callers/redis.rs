//! The crate `redis`: one connection, on which calls do not wait for each other.

use futures::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult};
use seqsvr_check::CallAnswer;
use seqsvr_client::Key;
use tokio::sync::Mutex;

use super::attempt::{AttemptResult, retry_all};
use super::test_call::{TestCall, next_answer};
use crate::test_keys::TestKey;

pub(super) struct RedisClient {
    client: Client,
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisClient {
    pub(super) fn new(port: u16) -> RedisClient {
        let client = Client::open(("127.0.0.1", port));
        RedisClient {
            client: client.expect("a good address"),
            connection: Mutex::new(None),
        }
    }

    pub(super) async fn call(&self, call: TestCall, items: &[&TestKey]) -> Vec<AttemptResult> {
        let connection = match self.ensure_connected().await {
            Ok(connection) => connection,
            Err(error) => return retry_all(items, &error.to_string()),
        };
        let results = match call {
            TestCall::Next(count) => {
                let take = |test_key| take_numbers(connection.clone(), count, test_key);
                join_all(items.iter().copied().map(take)).await
            }
            TestCall::Current => read_current(connection, items).await,
            TestCall::RaiseTo(value) => vec![raise_with_set(connection, value, items[0]).await],
        };
        // After a lost connection the next attempt uses a new one.
        if results
            .iter()
            .any(|result| matches!(result, AttemptResult::Retry(_)))
        {
            *self.connection.lock().await = None;
        }
        results
    }

    async fn ensure_connected(&self) -> RedisResult<MultiplexedConnection> {
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

async fn take_numbers(
    mut connection: MultiplexedConnection,
    count: u32,
    test_key: &TestKey,
) -> AttemptResult {
    let mut command = match count {
        1 => redis::cmd("INCR"),
        _ => redis::cmd("INCRBY"),
    };
    command.arg(redis_key(test_key));
    if count != 1 {
        command.arg(count);
    }
    let last: RedisResult<u64> = command.query_async(&mut connection).await;
    to_attempt_result(last.map(|last| {
        let first = last - u64::from(count - 1) * test_key.stride.get();
        next_answer(first, last, test_key)
    }))
}

/// `GET` and `MGET` do not distinguish a number from a bound, so each value is recorded as a bound.
async fn read_current(
    mut connection: MultiplexedConnection,
    items: &[&TestKey],
) -> Vec<AttemptResult> {
    let answer = |value: Option<u64>| value.map_or(CallAnswer::Never, CallAnswer::AtMost);
    if let [one] = items {
        let value = Cmd::get(redis_key(one)).query_async(&mut connection).await;
        return vec![to_attempt_result(value.map(answer))];
    }
    let keys: Vec<Vec<u8>> = items.iter().map(|item| redis_key(item)).collect();
    let values = Cmd::mget(keys).query_async(&mut connection).await;
    let values: Vec<Option<u64>> = match values {
        Ok(values) => values,
        Err(error) => {
            return items
                .iter()
                .map(|_| to_attempt_result(Err(error.clone())))
                .collect();
        }
    };
    values
        .into_iter()
        .map(|value| to_attempt_result(Ok(answer(value))))
        .collect()
}

async fn raise_with_set(
    mut connection: MultiplexedConnection,
    value: u64,
    test_key: &TestKey,
) -> AttemptResult {
    let set = Cmd::set(redis_key(test_key), value)
        .query_async(&mut connection)
        .await;
    let to = match set {
        Ok(()) => Ok(test_key.round_up(value)),
        // The error text contains the present number.
        Err(error) => parse_present_number(&error).ok_or(error),
    };
    to_attempt_result(to.map(|to| CallAnswer::RaiseTo {
        requested: value,
        to,
    }))
}

fn parse_present_number(error: &RedisError) -> Option<u64> {
    let text = error.detail()?;
    let (_, rest) = text.split_once("number is ")?;
    rest.split_once(" already")?.0.parse().ok()
}

fn to_attempt_result(result: RedisResult<CallAnswer>) -> AttemptResult {
    match result {
        Ok(answer) => AttemptResult::Done(Ok((None, answer))),
        Err(error) => {
            let may_retry = error.code() == Some("TRYAGAIN")
                || error.is_io_error()
                || error.is_connection_dropped()
                || error.is_timeout()
                || matches!(error.kind(), ErrorKind::Io);
            match may_retry {
                true => AttemptResult::Retry(error.to_string()),
                false => AttemptResult::Done(Err(error.to_string())),
            }
        }
    }
}

fn redis_key(test_key: &TestKey) -> Vec<u8> {
    match &test_key.key {
        Key::Uid(uid) => format!("@{}/{uid}", test_key.namespace).into_bytes(),
        Key::Key(key) if test_key.namespace == "keys" => key.to_vec(),
        Key::Key(key) => [b"@", test_key.namespace.as_bytes(), b"/", key].concat(),
    }
}
