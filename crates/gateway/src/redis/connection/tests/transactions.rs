//! Transactions: what EXEC answers, and that nothing of a transaction that is not executed takes a
//! number.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use super::*;
use crate::counting_sequence::{CountingSequence, SLOW_TAKE};
use crate::redis::shared::TOO_MANY_BYTES;
use crate::redis::transaction::{QueueOutcome, Transaction};

const ABORT: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

/// Bytes of the socket of a test: all requests arrive at once, or each byte alone.
pub(super) const AT_ONCE: usize = 1 << 20;
pub(super) const BYTE_BY_BYTE: usize = 1;
/// Commands whose answers are long.
const LONG_ANSWERS: [&str; 5] = [
    "info",
    "command",
    "command list",
    "client info",
    "client list",
];

/// Sends lines to a connection of its own; returns all its answers.
pub(super) async fn answers_of(
    sequence: &CountingSequence,
    lines: &[&str],
    socket_bytes: usize,
) -> String {
    let shutdown = CancellationToken::new();
    let (mut client_end, served) =
        spawn_connection_to(sequence.clone(), &new_shared(), socket_bytes, shutdown);
    let (mut reader, mut writer) = tokio::io::split(&mut client_end);
    let bytes = lines.join("\r\n") + "\r\n";
    let writing = async {
        writer.write_all(bytes.as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut answers = String::new();
    let (_, read) = tokio::join!(writing, reader.read_to_string(&mut answers));
    read.unwrap();
    drop(client_end);
    served.await.unwrap();
    answers
}

fn queued(count: usize) -> String {
    format!("+OK\r\n{}", "+QUEUED\r\n".repeat(count))
}

#[tokio::test]
async fn transaction_is_answered_with_one_array_and_errors_in_place() {
    let lines = [
        "incr a",
        "MULTI",
        "INCR a",
        "incrby a 5",
        "get a",
        "incrby a abc",
        "set a 500",
        "incr a",
        "set a 3",
        "incr @orders/7",
        "incr fail",
        "incr b",
        "mget a fail",
        "ping",
        "unwatch",
        "EXEC",
        "incr a",
        "exec",
    ];
    let array = "*13\r\n:2\r\n:7\r\n$1\r\n7\r\n-ERR value is not an integer or out of range\r\n+OK\r\n:501\r\n-ERR the number is 501 already, above 3: numbers only rise, and nothing was changed\r\n:1\r\n-ERR this key fails\r\n:1\r\n-ERR this key fails\r\n+PONG\r\n+OK\r\n";
    let expected = format!(
        ":1\r\n{}{array}:502\r\n-ERR EXEC without MULTI\r\n",
        queued(13)
    );
    for socket_bytes in [AT_ONCE, BYTE_BY_BYTE] {
        let sequence = CountingSequence::default();
        assert_eq!(answers_of(&sequence, &lines, socket_bytes).await, expected);
    }
    let lines = ["hello 3", "multi", "get none", "exec"];
    let answers = answers_of(&CountingSequence::default(), &lines, AT_ONCE).await;
    assert!(answers.ends_with(&(queued(1) + "*1\r\n_\r\n")), "{answers}");
    let answers = answers_of(&CountingSequence::default(), &["multi", "exec"], AT_ONCE).await;
    assert_eq!(answers, "+OK\r\n*0\r\n");
}

/// Plays the schedule of `transaction`: no place of the bad command makes another command run, and
/// neither the way of single commands nor that of batches answers a queued one.
#[tokio::test]
async fn rejected_transaction_takes_reads_and_sets_nothing() {
    for bad in [
        "nosuch a",
        "incr",
        "decr a",
        "set a 5 ex 10",
        "incrby a -1",
        "incr @/1",
        "multi",
        "watch a",
        "auth default x",
        "hello 3",
        "select 0",
        "select 1",
        "select abc",
        "client nosuch",
    ] {
        for place in 0..4 {
            let mut lines = vec!["incr a", "incrby b 10", "set c 100"];
            lines.insert(place, bad);
            lines.insert(0, "multi");
            lines.push("exec");
            for socket_bytes in [AT_ONCE, BYTE_BY_BYTE] {
                let sequence = CountingSequence::default();
                let answers = answers_of(&sequence, &lines, socket_bytes).await;
                let answers: Vec<&str> = answers.split_inclusive("\r\n").collect();
                assert_eq!(answers.len(), 6, "{bad}: {answers:?}");
                assert!(answers[place + 1].starts_with("-ERR"), "{bad}: {answers:?}");
                assert_eq!(answers[5], ABORT, "{bad}");
                assert_eq!(sequence.calls(), 0, "{bad} at {place}");
            }
        }
    }
}

#[tokio::test]
async fn transaction_that_is_left_or_cut_takes_nothing() {
    for (ends, expected) in [
        (
            &["discard", "exec"][..],
            "+OK\r\n-ERR EXEC without MULTI\r\n",
        ),
        (&["reset", "exec"], "+RESET\r\n-ERR EXEC without MULTI\r\n"),
        (&["quit", "exec"], "+OK\r\n"),
        (
            &["exec now", "incr c"],
            "-EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command\r\n:1\r\n",
        ),
        (&[], ""),
    ] {
        let sequence = CountingSequence::default();
        let mut lines = vec!["multi", "incr a", "set b 5"];
        lines.extend(ends);
        let answers = answers_of(&sequence, &lines, AT_ONCE).await;
        assert_eq!(answers, queued(2) + expected, "{ends:?}");
        let commands_after = ends.iter().filter(|line| line.starts_with("incr")).count();
        assert_eq!(sequence.calls(), commands_after, "{ends:?}");
    }
    let sequence = CountingSequence::default();
    let shared = new_shared();
    let (mut client_end, served) =
        spawn_connection_to(sequence.clone(), &shared, 1 << 16, CancellationToken::new());
    client_end.write_all(b"multi\r\nincr a\r\n").await.unwrap();
    read_text(&mut client_end, queued(1).len()).await;
    client_end.write_all(b"incr a\r\nexe").await.unwrap();
    drop(client_end);
    served.await.unwrap();
    assert_eq!(sequence.calls(), 0);
    assert_eq!(shared.buffers.held_bytes(), 0);
}

#[tokio::test]
async fn transaction_above_a_limit_is_rejected_and_takes_nothing() {
    let commands = |count: usize, line: &str| vec![line.to_owned(); count];
    let namespaces = |count| (0..count).map(|i| format!("incr @n{i}/1")).collect();
    let long = format!("ping {}", "x".repeat(16_000));
    for (allowed, above, limit) in [
        (
            commands(1_024, "incr a"),
            commands(1_025, "incr a"),
            "-ERR a transaction of more than 1024 commands",
        ),
        (
            namespaces(16),
            namespaces(17),
            "-ERR keys of more than 16 namespaces",
        ),
        (
            commands(65, &long),
            commands(66, &long),
            "-ERR a transaction of more than 1048576 bytes",
        ),
    ] {
        for (commands, is_allowed) in [(allowed, true), (above, false)] {
            let commands = commands.iter().map(String::as_str);
            let lines: Vec<&str> = ["multi"]
                .into_iter()
                .chain(commands)
                .chain(["exec"])
                .collect();
            let sequence = CountingSequence::default();
            let answers = answers_of(&sequence, &lines, AT_ONCE).await;
            assert_eq!(answers.contains(limit), !is_allowed, "{limit}");
            assert_eq!(answers.ends_with(ABORT), !is_allowed, "{limit}");
            assert!(is_allowed || sequence.calls() == 0, "{limit}");
        }
    }
}

/// Each read waits for the take before it, and begins a batch of its own.
#[tokio::test(start_paused = true)]
async fn transaction_that_is_slow_sends_nothing_after_its_time() {
    let sequence = CountingSequence::default();
    let mut lines = vec!["multi"];
    lines.extend(["incr slow", "get slow", "ping"].repeat(100));
    lines.push("exec");
    let began = Instant::now();
    let answers = answers_of(&sequence, &lines, AT_ONCE).await;
    assert_eq!(began.elapsed(), 2 * SLOW_TAKE);
    let answers = answers.strip_prefix(&queued(300)).unwrap();
    let late = "-TRYAGAIN EXEC took longer than 10 s";
    let (sent, unsent) = answers.split_once(late).unwrap();
    assert_eq!(sent, "*300\r\n:1\r\n$1\r\n1\r\n+PONG\r\n:2\r\n");
    assert_eq!(unsent.matches(late).count(), 200 - 4);
    assert_eq!(unsent.matches("+PONG").count(), 99);
    assert_eq!(sequence.calls(), 3);
}

/// Returns how often another task of the thread ran until all commands were answered.
async fn turns_of_another_task(lines: &[&str]) -> usize {
    let turns = Arc::new(AtomicUsize::new(0));
    let counted = turns.clone();
    let other = tokio::spawn(async move {
        loop {
            counted.fetch_add(1, Relaxed);
            tokio::task::yield_now().await;
        }
    });
    answers_of(&CountingSequence::default(), lines, 8 << 20).await;
    other.abort();
    turns.load(Relaxed)
}

#[tokio::test]
async fn commands_with_long_answers_let_other_tasks_run_between_them() {
    for command in LONG_ANSWERS {
        let commands = vec![command; 1_000];
        let turns = turns_of_another_task(&commands).await;
        assert!(turns > 1_000, "{command}: {turns}");
        let transaction = [&["multi"][..], &commands, &["exec"]].concat();
        let turns = turns_of_another_task(&transaction).await;
        assert!(turns > 1_000, "{command} in a transaction: {turns}");
    }
}

/// The answers to few words are long.
#[tokio::test]
async fn transaction_reserves_the_bytes_of_its_answers() {
    for command in LONG_ANSWERS {
        let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let mut transaction = Transaction::default();
        for _ in 0..1_000 {
            transaction.add_command(&words, true);
        }
        let reserved = transaction.into_queue().unwrap().estimated_bytes();
        let lines = [&["multi"][..], &[command; 1_000], &["exec"]].concat();
        let answers = answers_of(&CountingSequence::default(), &lines, 8 << 20).await;
        assert!(
            reserved > answers.len(),
            "{command}: {reserved} for {}",
            answers.len()
        );
    }
}

/// The queue of a connection counts as bytes that it holds. Without room for the queue or for its
/// execution, nothing is taken.
#[tokio::test]
async fn transaction_without_room_takes_nothing() {
    let sequence = CountingSequence::default();
    let shared = new_shared();
    let (mut client_end, _served) =
        spawn_connection_to(sequence.clone(), &shared, AT_ONCE, CancellationToken::new());
    let mget = format!("mget{}", " a".repeat(5_000));
    let begin = format!("multi\r\nincr a\r\n{mget}\r\n");
    client_end.write_all(begin.as_bytes()).await.unwrap();
    read_text(&mut client_end, queued(2).len()).await;
    client_end.write_all(b"ping\r\n").await.unwrap();
    read_text(&mut client_end, queued(1).len() - 5).await;
    assert!(shared.buffers.held_bytes() > 10_000, "the queue is counted");
    let mut others = BufferReservation {
        buffers: &shared.buffers,
        counted_bytes: 0,
    };
    let mut bytes = 256 << 20;
    while !others.try_resize(bytes) {
        bytes -= 1 << 10;
    }
    let error = format!("-{TOO_MANY_BYTES}\r\n");
    client_end.write_all(b"exec\r\n").await.unwrap();
    assert_eq!(read_text(&mut client_end, error.len()).await, error);
    assert_eq!(sequence.calls(), 0);
    let mut transaction = Transaction::default();
    let outcome = transaction.add_command(&[b"incr", b"a"], false);
    assert!(matches!(outcome, QueueOutcome::Rejected(text) if text == TOO_MANY_BYTES));
    assert!(transaction.into_queue().is_err());
}
