use crate::file_store::{create_file, hex, read_text, target, write_file};
use crate::random::uuid;
use sha2::{Digest, Sha256};
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A fingerprint of this machine: 64 hexadecimal characters, the same at every start, and another one for another application.
/// It is a hash, so the machine's own id is not sent. An id that many machines share (`uninitialized`, zeros, a vendor's
/// placeholder) is skipped. If the machine has no id, its host name is used.
///
/// With `file`, a random id in that file is used instead of the machine's own. For containers, which have no id or share the one
/// of their image: put the file on a volume. Processes that start at the same time use one id.
///
/// # Errors
///
/// The file system's error, if `file` is given and can be neither read nor written.
///
/// ```
/// # fn main() -> std::io::Result<()> {
/// let fingerprint = licensing::machine_fingerprint("app_01k…", None)?;
/// assert_eq!(fingerprint.len(), 64);
/// # Ok(())
/// # }
/// ```
pub fn machine_fingerprint(app_id: &str, file: Option<&Path>) -> io::Result<String> {
    let id = match file {
        Some(file) => kept_id(file)?,
        None => machine_id(std::env::consts::OS, &file_text, &printed).unwrap_or_else(host_name),
    };
    Ok(hex(&Sha256::digest(format!("{app_id}\n{id}"))))
}

/// The id in a file; a new one if there is none yet.
fn kept_id(file: &Path) -> io::Result<String> {
    let path = target(file)?;
    if let Some(id) = first_line(&path)? {
        return Ok(id);
    }
    let line = format!("{}\n", uuid());
    // Created exclusively, so that one of several processes decides. If that is not possible, because the file exists and is
    // empty or because the file system has no links, the first line that is appended decides.
    let _ = create_file(&path, &line);
    if first_line(&path)?.is_none() {
        write_file(OpenOptions::new().append(true).create(true), &path, &line)?;
    }
    let lost = || io::Error::other(format!("{} does not keep what is written to it", file.display()));
    first_line(&path)?.ok_or_else(lost)
}

/// The first line that is not blank. After a crash, text that was not written to the disk yet reads as NUL characters.
fn first_line(path: &Path) -> io::Result<Option<String>> {
    let text = read_text(path)?.unwrap_or_default().replace('\0', "");
    let mut lines = text.split(['\r', '\n']).map(|line| line.trim_matches(is_blank));
    Ok(lines.find(|line| !line.is_empty()).map(str::to_string))
}

/// White space of JavaScript, so that all SDKs read one id in a file.
fn is_blank(c: char) -> bool {
    c == '\u{FEFF}' || c.is_whitespace() && c != '\u{85}'
}

/// The id that the operating system gives the machine; none if it has none of its own. `file` returns the text of a file, and
/// `output` that of a command; both are empty after an error.
fn machine_id(os: &str, file: &dyn Fn(&str) -> String, output: &dyn Fn(&[&str]) -> String) -> Option<String> {
    let ids = match os {
        "macos" => {
            let text = output(&["ioreg", "-rd1", "-c", "IOPlatformExpertDevice"]);
            let id = text.split_once("\"IOPlatformUUID\" = \"").and_then(|(_, tail)| tail.split_once('"'));
            vec![id.map_or("", |(id, _)| id).to_string()]
        }
        "windows" => {
            let key = r"HKLM\SOFTWARE\Microsoft\Cryptography";
            // A program of 32 bits is shown another registry, which has no such value.
            let text = output(&["reg", "query", key, "/v", "MachineGuid", "/reg:64"]);
            let row = text.lines().find_map(|line| line.split_once("MachineGuid")?.1.split_once("REG_SZ"));
            vec![row.map_or("", |(_, id)| id).to_string()]
        }
        _ => vec![file("/etc/machine-id"), file("/var/lib/dbus/machine-id")],
    };
    ids.iter().map(|id| id.trim()).find(|id| !is_placeholder(id)).map(str::to_string)
}

fn file_text(path: &str) -> String {
    read_text(Path::new(path)).ok().flatten().unwrap_or_default()
}

const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// The output of a command, which is ended after the timeout.
fn printed(command: &[&str]) -> String {
    let (quiet, pipe) = (Stdio::null, Stdio::piped());
    let run =
        Command::new(command[0]).args(&command[1..]).stdin(quiet()).stderr(quiet()).stdout(pipe).spawn();
    let Ok(mut child) = run else { return String::new() };
    let begun = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if begun.elapsed() > COMMAND_TIMEOUT {
            let _ = child.kill();
        }
        sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().ok().filter(|output| output.status.success());
    output.map_or_else(String::new, |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn host_name() -> String {
    let name = match std::env::consts::OS {
        "linux" => file_text("/proc/sys/kernel/hostname"),
        _ => printed(&["hostname"]),
    };
    name.trim().to_string()
}

/// Placeholders that many machines have instead of an id: systemd's before the first boot, and the defaults of firmware whose
/// maker wrote no id. Letters and digits only, in lower case.
const PLACEHOLDERS: [&str; 25] = [
    "uninitialized",
    "none",
    "null",
    "unknown",
    "na",
    "notapplicable",
    "notavailable",
    "notspecified",
    "notsettable",
    "invalid",
    "default",
    "defaultstring",
    "systemserialnumber",
    "serialnumber",
    "tobefilledbyoem",
    "oem",
    "oemstring",
    "03000200040005000006000700080009",
    "00020003000400050006000700080009",
    "123456781234567890abcddeefaabbcc",
    "1234567812345678123456789abcdef0",
    "12345678901234567890123456789012",
    "0123456789abcdef0123456789abcdef",
    "4c4c454400002010802080c04f202020",
    "fefefefefefefefefefefefefefefefe",
];

/// Whether a text is blank, a placeholder, or one character repeated (zeros): no id of one machine.
fn is_placeholder(id: &str) -> bool {
    let lower = id.to_lowercase();
    let plain: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.chars().all(|c| plain.starts_with(c)) || PLACEHOLDERS.contains(&plain.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "8f3c1c0e6d5b4a2f9e8d7c6b5a493827";

    #[test]
    fn a_placeholder_is_not_the_id_of_a_machine_and_the_next_source_is_used() {
        for placeholder in [
            "uninitialized\n",
            "",
            "\n",
            "00000000000000000000000000000000\n",
            "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
            "03000200-0400-0500-0006-000700080009",
            "None",
            "To be filled by O.E.M.",
        ] {
            let first =
                |path: &str| if path == "/etc/machine-id" { placeholder.to_string() } else { String::new() };
            let both = |path: &str| if path == "/etc/machine-id" { first(path) } else { format!("{GOOD}\n") };
            let nothing = |_: &[&str]| String::new();
            assert_eq!(machine_id("linux", &both, &nothing).as_deref(), Some(GOOD));
            assert_eq!(machine_id("linux", &first, &nothing), None);
            let id = placeholder.trim();
            let mac = |_: &[&str]| format!("    \"IOPlatformUUID\" = \"{id}\"");
            assert_eq!(machine_id("macos", &first, &mac), None);
            let windows = |_: &[&str]| format!("    MachineGuid    REG_SZ    {id}\r\n");
            assert_eq!(machine_id("windows", &first, &windows), None);
        }
    }

    #[test]
    fn the_id_is_the_one_that_the_operating_system_reports() {
        let guid = "B7A1D5E2-3C4F-4E5A-9B8C-1D2E3F4A5B6C";
        let nothing = |_: &str| String::new();
        let mac = |_: &[&str]| format!("{{\n    \"IOPlatformUUID\" = \"{guid}\"\n}}");
        assert_eq!(machine_id("macos", &nothing, &mac).as_deref(), Some(guid));
        let registry = |command: &[&str]| {
            let is_64 = command.contains(&"/reg:64");
            if is_64 {
                format!("\r\nHKEY\r\n    MachineGuid    REG_SZ    {guid}\r\n\r\n")
            } else {
                String::new()
            }
        };
        assert_eq!(machine_id("windows", &nothing, &registry).as_deref(), Some(guid));
    }
}
