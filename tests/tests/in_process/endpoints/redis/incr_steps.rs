//! The steps of Valkey's tests of INCR, in own words: each is answered as Valkey 9.1 answers it, or
//! differs as `docs/guide/redis.md` says.
//!
//! Sends the commands one by one. Steps that look into Valkey's memory are left out.

use seqsvr_test_support::in_process::{InProcessCluster, LEASE};

use super::open_endpoint;
use super::resp_caller::RespCaller;

/// A command, the beginning of Valkey's answer to it, and a part of the answer here; None: it is
/// Valkey's.
type Step = (&'static str, &'static str, Option<&'static str>);

const RISE: Option<&str> = Some("numbers only rise");
const NO_INTEGER: &str = "-ERR value is not an integer or out of range\r\n";
/// The answer to a SET of what is no number.
const NO_NUMBER: &str = "not an integer or out of range: a key here holds a number";

const STEPS: [Step; 37] = [
    // A key without a number, and one that INCR made.
    ("incr a", ":1\r\n", None),
    ("get a", "$1\r\n1\r\n", None),
    ("incr a", ":2\r\n", None),
    ("decr a", ":1\r\n", RISE),
    ("decr b", ":-1\r\n", RISE),
    ("incr b", ":0\r\n", Some(":1\r\n")),
    ("decrby c 1", ":-1\r\n", RISE),
    // A key that SET made.
    ("set d 100", "+OK\r\n", None),
    ("incr d", ":101\r\n", None),
    // More than 32 bits.
    (
        "set e 17179869184",
        "+OK\r\n",
        Some("; request less, or have an operator raise the limit"),
    ),
    ("incr e", ":17179869185\r\n", Some(":1\r\n")),
    ("set f 900000000", "+OK\r\n", None),
    ("incrby f 17179869184", ":18079869184\r\n", RISE),
    ("decrby f 17179869185", ":899999999\r\n", RISE),
    ("incr f", ":900000000\r\n", Some(":900000001\r\n")),
    // Spaces around a number.
    ("set g \"    11\"", "+OK\r\n", Some(NO_NUMBER)),
    ("incr g", NO_INTEGER, Some(":1\r\n")),
    ("set h \"11    \"", "+OK\r\n", Some(NO_NUMBER)),
    ("incr h", NO_INTEGER, Some(":1\r\n")),
    ("set i \"    11    \"", "+OK\r\n", Some(NO_NUMBER)),
    ("incr i", NO_INTEGER, Some(":1\r\n")),
    // A decrement whose negation overflows.
    ("set j 0", "+OK\r\n", None),
    (
        "decrby j -9223372036854775808",
        "-ERR decrement would overflow\r\n",
        RISE,
    ),
    // A key that holds a list.
    ("rpush k 1", ":1\r\n", Some("unknown command 'rpush'")),
    ("incr k", "-WRONGTYPE", Some(":1\r\n")),
    // Wrong arguments.
    (
        "incr l v",
        "-ERR wrong number of arguments for 'incr' command\r\n",
        None,
    ),
    (
        "decr l v",
        "-ERR wrong number of arguments for 'decr' command\r\n",
        RISE,
    ),
    ("incrby l v", NO_INTEGER, None),
    ("incrby l 1.5", NO_INTEGER, None),
    ("decrby l v", NO_INTEGER, RISE),
    ("decrby l 1.5", NO_INTEGER, RISE),
    (
        "incrbyfloat l v",
        "-ERR value is not a valid float\r\n",
        Some("is not supported"),
    ),
    // A text that becomes a number.
    ("set m 1", "+OK\r\n", None),
    ("get m", "$1\r\n1\r\n", None),
    ("append m 2", ":2\r\n", Some("is not supported")),
    ("incr m", ":13\r\n", Some(":2\r\n")),
    ("incrby m 1", ":14\r\n", Some(":3\r\n")),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn incr_step_of_valkey_is_answered_alike_or_as_documented() {
    let cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let endpoint = open_endpoint(&allocs[0]).await;
    let mut redis = RespCaller::connect(endpoint.local_addr()).await;
    for (line, valkey, different) in STEPS {
        let answer = redis.run(line).await;
        match different {
            None => assert_eq!(answer, valkey, "{line}"),
            Some(part) => {
                assert!(answer.contains(part), "{line}: {answer}");
                assert!(!answer.starts_with(valkey), "{line}: Valkey answers so too");
            }
        }
    }
}
