//! Several processes on one store and one file with an id. The processes are this test, started again.

use licensing::{machine_fingerprint, FileStore, Store};
use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a process does, in a folder that is named in its environment.
#[test]
fn work_of_a_process() {
    let Ok(order) = env::var("LICENSING_TEST_ORDER") else { return };
    let folder = PathBuf::from(env::var("LICENSING_TEST_FOLDER").unwrap());
    let store = FileStore::new(folder.join("data/licence.json"));
    let add = |line: &str| store.update(&mut |text| format!("{}{line}\n", text.unwrap_or_default())).unwrap();
    if order == "forever" {
        loop {
            add(&"x".repeat(10_000));
        }
    }
    for round in 0..5 {
        add(&format!("{order}{round}"));
    }
    let fingerprint = machine_fingerprint("app_1", Some(&folder.join("volume/id"))).unwrap();
    std::fs::write(folder.join(format!("fingerprint-{order}")), fingerprint).unwrap();
}

fn start(order: &str, folder: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "work_of_a_process"])
        .env("LICENSING_TEST_ORDER", order)
        .env("LICENSING_TEST_FOLDER", folder)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn folder(name: &str) -> PathBuf {
    let folder = env::temp_dir().join(format!("licensing-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn eight_processes_lose_nothing_that_they_write_and_have_one_fingerprint() {
    let folder = folder("processes");
    let orders = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let processes: Vec<Child> = orders.iter().map(|order| start(order, &folder)).collect();
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
    let text = std::fs::read_to_string(folder.join("data/licence.json")).unwrap();
    let all = orders.iter().flat_map(|order| (0..5).map(move |round| format!("{order}{round}")));
    assert_eq!(text.lines().map(str::to_string).collect::<BTreeSet<_>>(), all.collect());
    assert_eq!(
        (text.lines().count(), files(&folder.join("data")), files(&folder.join("volume"))),
        (40, 1, 1)
    );
    let fingerprints =
        orders.map(|order| std::fs::read_to_string(folder.join(format!("fingerprint-{order}"))).unwrap());
    assert_eq!(BTreeSet::from(fingerprints).len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_process_that_is_killed_while_it_writes_leaves_a_whole_text_and_blocks_no_other() {
    let folder = folder("killed");
    let store = FileStore::new(folder.join("data/licence.json"));
    for round in 0..10 {
        let mut victim = start("forever", &folder);
        let before = store.read().unwrap();
        while store.read().unwrap() == before {
            sleep(Duration::from_millis(1));
        }
        sleep(Duration::from_micros(700 * round));
        victim.kill().unwrap();
        victim.wait().unwrap();
        let text = store.read().unwrap().unwrap();
        assert!(text.ends_with('\n') && text.lines().all(|line| line.len() == 10_000));
        let begun = Instant::now();
        store.update(&mut |_| String::new()).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
