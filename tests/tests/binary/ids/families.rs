//! Families of ids, their workers, and store time on the command line.

use serde_json::Value;

use super::assert_bad_input;
use super::next::check_next;
use crate::dev::{DevServer, expect_exit_code};

impl DevServer {
    /// Runs a command that must fail with this code and these words.
    pub(super) fn expect_rejection(&self, args: &str, code: i32, words: &[&str]) {
        let args: Vec<&str> = args.split(' ').collect();
        let errors = expect_exit_code(&self.run_client(&args), code);
        for word in words {
            assert!(errors.contains(word), "{args:?} says {errors:?}");
        }
    }

    pub(super) fn run_line(&self, args: &str) -> String {
        let args: Vec<&str> = args.split(' ').collect();
        self.run_client_ok(&args).trim_end().to_owned()
    }

    /// Returns the line of `id list` for a family, and its JSON.
    fn listed(&self, family: &str) -> (String, Value) {
        let head = format!("{family} (id ");
        let lines = self.run_line("id list");
        let line = lines.lines().find(|line| line.starts_with(&head));
        let objects = self.run_line("id list --json");
        let mut objects = objects
            .lines()
            .map(|line| serde_json::from_str(line).unwrap());
        let object = objects.find(|object: &Value| object["name"] == family);
        (line.unwrap().to_owned(), object.unwrap())
    }
}

#[test]
fn families_are_made_listed_altered_and_raised_and_give_ids_by_commands() {
    let dev = DevServer::start();
    assert!(dev.listed("snowflake").0.starts_with("snowflake (id 1): "));
    let made = dev.run_line("id create orders");
    assert!(made.starts_with("orders (id "), "{made}");
    let rest = ": 0:1,time:41,worker:10,seq:12; ticks of 1 ms from 2026-01-01T00:00:00.000Z to \
                2095-09-07T15:47:35.552Z; 1024 workers of 0 to 1023, 4096 ids a tick each, \
                4194304000 ids a second in all; window 10 s, ahead 1 s (bursts of 4096000 ids a \
                worker)";
    assert!(made.ends_with(rest), "{made}");
    assert_eq!(dev.run_line("id create orders"), made, "the same again");
    assert_eq!(dev.listed("orders").0, made);
    dev.expect_rejection(
        "id create orders --preset js --window 20s",
        1,
        &["\"orders\" already exists with other settings (layout, workers, window)"],
    );

    let tweets = dev.run_line("id create tweets --preset twitter --dc 3 --reserve 0-15 --sticky");
    let part = "; 16 workers of 0 to 31, 4096 ids a tick each, 65536000 ids a second in all; ";
    assert!(tweets.contains(part), "{tweets}");
    assert!(
        tweets.ends_with("; reserved 0-15; dc 3; sticky"),
        "{tweets}"
    );
    let counted = dev.run_line("id create counted --preset rollbacks --seq-start random:100");
    let part = "; 4 lanes, each used once; seq-start random:100";
    assert!(counted.ends_with(part), "{counted}");
    let web = "id create web --layout worker:2,time:41,seq:8 --epoch 2026-01-01 --ahead 0s";
    let web = dev.run_line(&format!("{web} --workers 1-2 --reuse never"));
    let part = "; 2 workers of 1 to 2, 256 ids a tick each, 512000 ids a second in all; window \
                10 s, ahead 0 s; each worker granted once; not ordered by time";
    assert!(web.ends_with(part), "{web}");

    let altered = dev.run_line("id alter orders --frozen true --window 20s --ahead 10s");
    let part = "window 20 s, ahead 10 s (bursts of 40960000 ids a worker); frozen";
    assert!(altered.ends_with(part), "{altered}");
    let (line, object) = dev.listed("orders");
    assert_eq!(line, altered);
    assert_eq!(
        (&object["window_ms"], &object["frozen"]),
        (&20_000.into(), &true.into())
    );
    dev.expect_rejection(
        "id alter orders --ahead 11s",
        2,
        &["at most half of the window"],
    );
    dev.expect_rejection(
        "id alter nowhere --frozen true",
        2,
        &[
            "no family is named \"nowhere\": there are ",
            "snowflake, orders, tweets, counted, web",
            "id create nowhere",
        ],
    );

    // A floor never falls.
    let raised = dev.run_line("id raise-to orders 4194304");
    assert_eq!(
        raised,
        "orders: no later grant begins before 2026-01-01T00:00:00.002Z"
    );
    let raised = dev.run_line("id raise-to orders --time 2026-02-01");
    assert_eq!(
        raised,
        "orders: no later grant begins before 2026-02-01T00:00:00.000Z"
    );
    for same in ["4194304", "0x400000", "base62:Hb84"] {
        assert_eq!(dev.run_line(&format!("id raise-to orders {same}")), raised);
    }
    let far = "id raise-to orders --time 2090-01-01";
    dev.expect_rejection(
        far,
        2,
        &["more than ahead (10000 ms) in front of", "--force"],
    );
    dev.expect_rejection(
        "id raise-to orders --time 2096-01-01 --force",
        2,
        &["family \"orders\" ends on 2095-", "permanently"],
    );
    dev.run_line(&format!("{far} --force"));
    let (line, object) = dev.listed("orders");
    assert_eq!(line, format!("{altered}; floor 2090-01-01T00:00:00.000Z"));
    assert_eq!(object["floor_ms"], 3_786_912_000_000_u64);
    dev.expect_rejection(
        "id raise-to orders 18446744073709551615",
        2,
        &["family \"orders\": 18446744073709551615 is no id of the layout: bit 63"],
    );
    dev.expect_rejection(
        "id raise-to nowhere 5",
        2,
        &["no family is named \"nowhere\""],
    );

    let head = " worker   epoch  granted until                  left  holder";
    assert_eq!(
        dev.run_client_ok(&["id", "workers", "orders"]).trim_end(),
        head
    );
    assert_eq!(
        dev.run_client_ok(&["id", "workers", "orders", "--json"]),
        ""
    );
    dev.expect_rejection("id workers nowhere", 2, &["no family is named \"nowhere\""]);
    dev.expect_rejection(
        "id revoke orders 3",
        1,
        &["worker 3 of family \"orders\" is not held"],
    );

    check_clock(&dev);
    check_next(&dev);
}

fn check_clock(dev: &DevServer) {
    let clock = dev.run_line("id clock");
    let lines: Vec<&str> = clock.lines().collect();
    let [time, "store  1: clock +0 ms from the median"] = lines[..] else {
        panic!("{clock}")
    };
    let time = time.strip_prefix("store time ").unwrap();
    assert_eq!((time.len(), &time[23..]), (24, "Z"), "{clock}");
    let ahead = "id clock back --to 9999-01-01";
    dev.expect_rejection(
        ahead,
        1,
        &["9999-01-01T00:00:00.000Z is after store time, 20", "accept"],
    );
    dev.expect_rejection("id clock back", 2, &["--to <TIME>"]);
    dev.expect_rejection("id clock --json accept", 2, &["--json"]);

    // No worker was granted, so no family is stopped. The clock is too far ahead to be followed.
    let far_back = "id clock back --to 2026-06-01";
    let words = ["more than 30 days before the clocks", "accept", "--force"];
    dev.expect_rejection(far_back, 1, &words);
    let back = format!("{far_back} --force");
    let back = dev.run_client(&back.split(' ').collect::<Vec<_>>());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert!(back.status.success(), "{back:?}");
    let (out, warning) = (text(back.stdout), text(back.stderr));
    let head = "store time 2026-06-01T00:00:00.000Z, set 1 times by an operator\n";
    assert!(out.starts_with(head), "{out}");
    for part in [
        "warning: store time does not follow",
        "no worker is granted",
        "id clock accept",
    ] {
        assert!(warning.contains(part), "{warning}");
    }
    let suspect = "id create late --timeout 1s";
    let words = ["more than 30 days after", "id clock accept"];
    dev.expect_rejection(suspect, 3, &words);
    dev.expect_rejection("id next web --timeout 500ms", 3, &words);
    let status: Value = serde_json::from_str(&dev.run_line("id clock accept --json")).unwrap();
    assert_eq!(
        (&status["grants"], &status["suspect"]),
        (&true.into(), &false.into())
    );
    assert!(
        status["store_time_ms"].as_u64() > Some(1_780_272_000_000),
        "{status}"
    );
    dev.run_line("id create late");
}

#[test]
fn family_that_cannot_work_is_bad_input() {
    for (flags, words) in [
        (
            "--preset uidgenerator",
            "needs an epoch: the ticks of its own",
        ),
        (
            "--preset uidgenerator --epoch 2016-05-20",
            "ended on 2024-11-20T",
        ),
        (
            "--preset uidgenerator --epoch 2026-01-01 --years-min 300",
            "in less than 300 years",
        ),
        (
            "--preset twitter --epoch 2200-01-01",
            "is after the time now",
        ),
        ("--preset nowhere", "--preset nowhere: "),
        (
            "--layout time:41,worker:13,seq:13 --epoch 2026-01-01",
            "67 bits: an id has 1 to 64",
        ),
        (
            "--layout unsigned,time:42,seq:22 --epoch 2026-01-01",
            "more than 63 bits",
        ),
        ("--layout 0:1,time:41,seq:12", "--layout needs --epoch"),
        (
            "--ahead 8s",
            "ahead (8000 ms) may be at most half of the window (10000 ms)",
        ),
        ("--window 1ms", "window must be 1000 to 86400000 ms, not 1"),
        ("--workers 0-2000", "the last worker must be 0 to 1023"),
        ("--reserve 1000-1030", "do not lie within 0 to 1023"),
        ("--reserve 0-1023", "leave at least one"),
        ("--dc 3", "dc must be 0 to 0"),
        ("--lanes once", "only in a layout with lanes"),
        ("--reuse never --sticky", "cannot have --reuse never"),
        ("--seq-start random:5000", "1 to 4096, the ids of a tick"),
    ] {
        let args = ["id", "create", "x"].into_iter().chain(flags.split(' '));
        assert_bad_input(&args.collect::<Vec<_>>(), &[words]);
    }
    assert_bad_input(&["id", "create", "a b"], &["family name \"a b\""]);
    assert_bad_input(&["id", "raise-to", "x"], &["<ID|--time <TIME>>"]);
    assert_bad_input(
        &["id", "raise-to", "x", "5", "--time", "2026-01-01"],
        &["--time"],
    );
}
