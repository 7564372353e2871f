//! Ids of families on the command line.

use serde_json::Value;

use crate::dev::DevServer;

/// Checks ids of `snowflake`, and of families that have none, at a `dev` without grants.
pub(super) fn check_next(dev: &DevServer) {
    let number = |args: &str| dev.run_line(args).parse::<u64>().unwrap();
    let decode = |text: &str| -> Value {
        let line = dev.run_line(&format!("decode {text} --family snowflake --json"));
        serde_json::from_str(&line).unwrap()
    };
    let first = number("id next");
    let read = decode(&first.to_string());
    assert_eq!(read["worker"], 0, "{read}");
    assert_eq!(read["id"], first.to_string(), "{read}");

    let row = dev.run_line("id workers snowflake");
    let row = row.lines().nth(1).unwrap();
    assert!(
        row.starts_with("      0       1  20") && row.ends_with("  alloc/a1"),
        "{row}"
    );

    // The ids of two calls.
    let many = dev.run_line("id next --count 10001");
    let many: Vec<u64> = many.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(many.len(), 10_001);
    let rises = |ids: &[u64]| ids.is_sorted_by(|a, b| a < b);
    assert!(first < many[0] && rises(&many), "{first}, {many:?}");

    let short = dev.run_line("id next snowflake --form base62");
    let read = decode(&format!("base62:{short}"));
    let id: u64 = read["id"].as_str().unwrap().parse().unwrap();
    assert!(short.len() == 11 && id > many[10_000], "{short} is {read}");
    let object: Value = serde_json::from_str(&dev.run_line("id next --json --form hex")).unwrap();
    assert_eq!(
        (&object["form"], &object["worker"]),
        (&"hex".into(), &0.into())
    );
    assert!(
        object["time_ms"].as_u64() >= read["time_ms"].as_u64(),
        "{object}"
    );

    let revoked = dev.run_line("id revoke snowflake 0");
    let part = "snowflake: worker 0 is revoked; its last holder may make ids until 20";
    assert!(revoked.starts_with(part), "{revoked}");
    assert!(number("id next") > id);

    let unknown = [
        "no family is named \"nowhere\": there are snowflake, ",
        "id create nowhere",
    ];
    dev.expect_rejection("id next nowhere", 2, &unknown);
    dev.expect_rejection("decode 5 --family nowhere", 2, &unknown);
    let of_no_worker = ["5 is no id of web: its worker 0 is outside of 1 to 2"];
    dev.expect_rejection("decode 5 --family web", 2, &of_no_worker);
    dev.expect_rejection("id next --count 1000001", 2, &["1..=1000000"]);
    dev.run_line("id alter counted --frozen true");
    dev.expect_rejection(
        "id next counted",
        1,
        &["family \"counted\" is frozen: use another"],
    );
}
