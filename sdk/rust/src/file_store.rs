use crate::random::uuid;
use crate::Store;
use sha2::{Digest, Sha256};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A store in one file, readable by its owner only. The file is replaced by renaming, so a crash leaves either the old or the
/// new content. Its folder is created if it is missing. Several processes may share it, also those of other SDKs.
///
/// If the file cannot be replaced by renaming (a single mounted file, a read-only folder), it is written in place. In a
/// container the file should be on a volume.
///
/// ```
/// let store = licensing::FileStore::new("/var/lib/acme/licence.json");
/// ```
#[derive(Clone, Debug)]
pub struct FileStore {
    path: PathBuf,
}

impl FileStore {
    /// A store in the file at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Store for FileStore {
    fn read(&self) -> io::Result<Option<String>> {
        read_text(&self.path)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        self.update(&mut |_| text.to_string())
    }

    fn update(&self, change: &mut dyn FnMut(Option<&str>) -> String) -> io::Result<()> {
        let file = target(&self.path)?;
        loop {
            let before = read_text(&file)?;
            let after = change(before.as_deref());
            if replace(&file, before.as_deref(), &after)? {
                return Ok(());
            }
        }
    }
}

/// The text of a file; none if there is none. Bytes that are not UTF-8 become replacement characters, as in all SDKs.
pub(crate) fn read_text(path: &Path) -> io::Result<Option<String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file that a path leads to through symbolic links, even if that file does not exist yet.
pub(crate) fn target(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return found,
    }
    match fs::read_link(path) {
        Ok(link) => target(&folder_of(path).join(link)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidInput) => {
            Ok(path.to_path_buf())
        }
        Err(error) => Err(error),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file with this text, unless it exists. No reader sees a part of it.
pub(crate) fn create_file(path: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder_of(path))?;
    let draft = beside(path, &uuid());
    let created = write_file(OpenOptions::new().write(true).create_new(true), &draft, text)
        .and_then(|()| fs::hard_link(&draft, path));
    remove(&draft)?;
    created
}

/// Writes a file that only its owner can read, and waits until it is on the disk.
pub(crate) fn write_file(options: &mut OpenOptions, path: &Path, text: &str) -> io::Result<()> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    let mut file: File = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
        .or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Replaces the text `before` of a file by `after`. False if another process has replaced it first.
///
/// The new text is first written to a file whose name is derived from the old text, so only one process can create it. If that
/// process is killed, another one can rename the complete file into place. No process waits for a lock that a crash left
/// behind.
fn replace(path: &Path, before: Option<&str>, after: &str) -> io::Result<bool> {
    let name = before.map_or_else(|| "none".to_string(), |text| hex(&Sha256::digest(text))[..32].to_string());
    let successor = beside(path, &format!("after-{name}"));
    let mut is_ours = true;
    if let Err(error) = create_file(&successor, after) {
        if error.kind() != ErrorKind::AlreadyExists {
            return write_in_place(path, before, after, error);
        }
        if !is_abandoned(&successor) {
            return Ok(false);
        }
        is_ours = false;
    }
    // Checked again now: from here only this successor can replace `before`.
    if read_text(path)?.as_deref() != before {
        if is_ours {
            remove(&successor)?;
        }
        return Ok(false);
    }
    match fs::rename(&successor, path) {
        // Another process assumed that this one was killed, and has renamed the successor into place.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(is_ours),
        Err(error) => {
            remove(&successor)?;
            write_in_place(path, before, after, error)
        }
        Ok(()) => Ok(is_ours),
    }
}

/// A process that has not finished a write after this time was killed: a write takes a few milliseconds.
const ABANDONED_AFTER: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

/// Waits until a successor is in place. True if that does not happen, because its process was killed.
fn is_abandoned(successor: &Path) -> bool {
    let begun = Instant::now();
    let first = identity_of(successor);
    while begun.elapsed() < ABANDONED_AFTER {
        sleep(POLL);
        if identity_of(successor) != first {
            return false;
        }
    }
    first.is_some()
}

#[cfg(unix)]
fn identity_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|file| std::os::unix::fs::MetadataExt::ino(&file))
}

/// Windows does not tell the id of a file without opening it: the time of its creation is close enough.
#[cfg(not(unix))]
fn identity_of(path: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(path).and_then(|file| file.created()).ok()
}

/// Writes in place if the file system contains the file, but cannot link or rename in its folder.
fn write_in_place(path: &Path, before: Option<&str>, after: &str, cause: io::Error) -> io::Result<bool> {
    use ErrorKind::{CrossesDevices, PermissionDenied, ReadOnlyFilesystem, ResourceBusy, Unsupported};
    if !matches!(
        cause.kind(),
        PermissionDenied | ReadOnlyFilesystem | ResourceBusy | CrossesDevices | Unsupported
    ) {
        return Err(cause);
    }
    if read_text(path)?.as_deref() != before {
        return Ok(false);
    }
    write_file(OpenOptions::new().write(true).create(true).truncate(true), path, after)?;
    Ok(true)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
