//! The C interface, which `include/licensing.h` describes. No panic crosses it: a call that panics returns its fallback.

use crate::{
    machine_fingerprint, verify_webhook, Client, FileStore, InvalidRootKey, ListenerId, Options, Request,
    Response, RootKey, SignatureHeaders, State, WebhookOptions,
};
use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::Duration;
use std::{io, slice};

type FreeUser = Option<extern "C" fn(*mut c_void)>;
type Clock = extern "C" fn(*mut c_void) -> i64;
type Send = extern "C" fn(*mut c_void, *const CRequest, *mut Response) -> bool;
type Listener = extern "C" fn(*mut c_void, *const CState);

/// `licensing_options`.
#[repr(C)]
pub struct COptions {
    base_url: *const c_char,
    app_id: *const c_char,
    root_keys: *const *const c_char,
    licence_key: *const c_char,
    fingerprint: *const c_char,
    host: *const c_char,
    product_version: *const c_char,
    store_file: *const c_char,
    timeout_ms: u32,
    no_background: bool,
    clock: Option<Clock>,
    send: Option<Send>,
    user: *mut c_void,
    free_user: FreeUser,
}

/// `licensing_request`.
#[repr(C)]
pub struct CRequest {
    method: *const c_char,
    url: *const c_char,
    headers: *const *const c_char,
    body: *const c_char,
    timeout_ms: u32,
}

/// `licensing_state`. Its texts are its own.
#[repr(C)]
pub struct CState {
    status: i32,
    usable: bool,
    offline: bool,
    clock_turned_back: bool,
    has_seats: bool,
    seats: i64,
    texts: [*mut c_char; 13],
}

impl CState {
    fn new(state: &State) -> Self {
        let problem = state.problem.as_ref();
        let texts = [
            state.reason.as_ref().map(|reason| reason.as_str()),
            state.licence_id.as_deref(),
            state.activation_id.as_deref(),
            state.plan_id.as_deref(),
            state.licence_status.as_deref(),
            state.updates_until.as_deref(),
            state.expires_at.as_deref(),
            state.refresh_after.as_deref(),
            Some(state.revocations.as_str()),
            problem.map(|problem| problem.operation.as_str()),
            problem.map(|problem| problem.code.as_str()),
            problem.map(|problem| problem.detail.as_str()),
            problem.map(|problem| problem.at.as_str()),
        ];
        Self {
            status: state.status as i32,
            usable: state.usable,
            offline: state.offline,
            clock_turned_back: state.clock_turned_back,
            has_seats: state.seats.is_some(),
            seats: state.seats.unwrap_or(0),
            texts: texts.map(|text| text.map_or(null_mut(), given)),
        }
    }
}

impl Drop for CState {
    fn drop(&mut self) {
        for text in self.texts {
            // SAFETY: `given` made it.
            unsafe { licensing_string_free(text) };
        }
    }
}

/// A pointer of the product that its functions get, from any thread. It is freed when no function will be called any more.
struct User {
    pointer: *mut c_void,
    free: FreeUser,
}

// SAFETY: the header asks for functions that can be called from any thread.
unsafe impl std::marker::Send for User {}
unsafe impl Sync for User {}

impl Drop for User {
    fn drop(&mut self) {
        if let Some(free) = self.free {
            free(self.pointer);
        }
    }
}

/// A text for the product, which frees it. NUL characters, which no text of C has, are left out.
fn given(text: &str) -> *mut c_char {
    CString::new(text.replace('\0', "")).map_or(null_mut(), CString::into_raw)
}

/// A text of the product; bytes that are not UTF-8 are replaced.
///
/// # Safety
///
/// `text` is null or a text that ends with NUL.
unsafe fn taken(text: *const c_char) -> Option<String> {
    // SAFETY: the caller says so.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// # Safety
///
/// `texts` is null, or an array of texts that ends with a null pointer.
unsafe fn all_taken(texts: *const *const c_char) -> Vec<String> {
    let mut all = Vec::new();
    // SAFETY: the caller says so, and nothing after the null pointer is read.
    while let Some(text) = (!texts.is_null()).then(|| unsafe { taken(*texts.add(all.len())) }).flatten() {
        all.push(text);
    }
    all
}

fn guarded<T>(fallback: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(fallback)
}

/// A result has no text yet.
///
/// # Safety
///
/// `result` is null, or can be written.
unsafe fn clear(result: *mut *mut c_char) {
    if !result.is_null() {
        // SAFETY: the caller says so.
        unsafe { *result = null_mut() };
    }
}

/// # Safety
///
/// `error` is null, or can be written.
unsafe fn fail<T>(error: *mut *mut c_char, cause: &dyn std::error::Error) -> *mut T {
    if !error.is_null() {
        // SAFETY: the caller says so.
        unsafe { *error = given(&cause.to_string()) };
    }
    null_mut()
}

/// # Safety
///
/// As in the header: `options` and its texts can be read; `error` is null, or can be written.
#[no_mangle]
pub unsafe extern "C" fn licensing_new(options: *const COptions, error: *mut *mut c_char) -> *mut Client {
    guarded(null_mut(), || {
        // SAFETY: the caller says so.
        unsafe { clear(error) };
        // SAFETY: the caller says so.
        let client = unsafe { options.as_ref() }.ok_or(InvalidRootKey).and_then(|options| {
            // SAFETY: the caller says so.
            Client::new(unsafe { options_of(options) })
        });
        // SAFETY: the caller says so.
        client.map_or_else(
            |cause| unsafe { fail(error, &cause) },
            |client| Arc::into_raw(Arc::new(client)).cast_mut(),
        )
    })
}

/// # Safety
///
/// The texts can be read.
unsafe fn options_of(options: &COptions) -> Options {
    // SAFETY: the caller says so.
    let text = |text| unsafe { taken(text) }.unwrap_or_default();
    // SAFETY: the caller says so.
    let (licence_key, store_file) = unsafe { (taken(options.licence_key), taken(options.store_file)) };
    // SAFETY: the caller says so.
    let mut root_keys = unsafe { all_taken(options.root_keys) };
    let user = Arc::new(User { pointer: options.user, free: options.free_user });
    let of_clock = user.clone();
    let mut all = Options {
        base_url: text(options.base_url),
        app_id: text(options.app_id),
        root_key: if root_keys.len() == 1 { root_keys.remove(0).into() } else { RootKey::Several(root_keys) },
        licence_key,
        fingerprint: text(options.fingerprint),
        host: text(options.host),
        product_version: text(options.product_version),
        clock: options.clock.map(|clock| Arc::new(move || clock(of_clock.pointer)) as _),
        transport: options
            .send
            .map(|send| Arc::new(move |request: &Request| sent(send, &user, request)) as _),
        background: !options.no_background,
        ..Options::default()
    };
    if let Some(path) = store_file {
        all.store = Arc::new(FileStore::new(path));
    }
    if options.timeout_ms > 0 {
        all.timeout = Duration::from_millis(options.timeout_ms.into());
    }
    all
}

fn sent(send: Send, user: &User, request: &Request) -> io::Result<Response> {
    let text = |text: &str| CString::new(text).map_err(io::Error::other);
    let (method, url, body) = (text(request.method)?, text(&request.url)?, text(&request.body)?);
    let mut headers = Vec::new();
    for (name, value) in &request.headers {
        headers.extend([text(name)?, text(value)?]);
    }
    let mut pointers: Vec<_> = headers.iter().map(|header| header.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let request = CRequest {
        method: method.as_ptr(),
        url: url.as_ptr(),
        headers: pointers.as_ptr(),
        body: if request.body.is_empty() { std::ptr::null() } else { body.as_ptr() },
        timeout_ms: u32::try_from(request.timeout.as_millis()).unwrap_or(u32::MAX),
    };
    let mut response = Response::default();
    let is_sent = send(user.pointer, &request, &mut response);
    is_sent.then_some(response).ok_or_else(|| io::Error::other("the function `send` of the product failed"))
}

/// # Safety
///
/// As in the header: `response` is the one that `send` got, and the others can be read.
#[no_mangle]
pub unsafe extern "C" fn licensing_response_set(
    response: *mut Response,
    status: u16,
    headers: *const *const c_char,
    body: *const c_void,
    body_length: usize,
) {
    guarded((), || {
        // SAFETY: the caller says so.
        let (response, headers) = unsafe { (&mut *response, all_taken(headers)) };
        response.status = status;
        response.headers = headers.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        // SAFETY: the caller says so.
        response.body = unsafe { bytes(body, body_length) }.to_vec();
    });
}

/// # Safety
///
/// `length` bytes can be read at `start`.
unsafe fn bytes<'a>(start: *const c_void, length: usize) -> &'a [u8] {
    if start.is_null() || length == 0 {
        return &[];
    }
    // SAFETY: the caller says so.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}

/// # Safety
///
/// As in the header: `client` is null, or comes from `licensing_new` and is not freed twice.
#[no_mangle]
pub unsafe extern "C" fn licensing_free(client: *mut Client) {
    if !client.is_null() {
        // SAFETY: the caller says so. A call that is running has a reference of its own.
        guarded((), || unsafe { Arc::from_raw(client) }.close());
    }
}

/// # Safety
///
/// As in the header: `state` is null, or comes from a call and is not freed twice.
#[no_mangle]
pub unsafe extern "C" fn licensing_state_free(state: *mut CState) {
    if !state.is_null() {
        // SAFETY: the caller says so.
        guarded((), || drop(unsafe { Box::from_raw(state) }));
    }
}

/// # Safety
///
/// As in the header: `text` is null, or comes from this library and is not freed twice.
#[no_mangle]
pub unsafe extern "C" fn licensing_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller says so.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// The client for the time of a call, also if it is freed meanwhile.
///
/// # Safety
///
/// `client` is null, or comes from `licensing_new` and is not freed yet.
unsafe fn of_call(client: *const Client) -> Option<Arc<Client>> {
    if client.is_null() {
        return None;
    }
    // SAFETY: the caller says so.
    unsafe {
        Arc::increment_strong_count(client);
        Some(Arc::from_raw(client))
    }
}

macro_rules! calls {
    ($($name:ident($($argument:ident),*) = $call:ident;)*) => {
        $(
            /// # Safety
            ///
            /// As in the header: `client` comes from `licensing_new` and is not freed, and the texts can be read.
            #[no_mangle]
            pub unsafe extern "C" fn $name(client: *const Client $(, $argument: *const c_char)*) -> *mut CState {
                guarded(null_mut(), || {
                    // SAFETY: the caller says so.
                    let Some(client) = (unsafe { of_call(client) }) else { return null_mut() };
                    // SAFETY: the caller says so.
                    let state = client.$call($(&unsafe { taken($argument) }.unwrap_or_default()),*);
                    Box::into_raw(Box::new(CState::new(&state)))
                })
            }
        )*
    };
}

calls! {
    licensing_state_of() = state;
    licensing_ready() = ready;
    licensing_activate() = activate;
    licensing_start_trial(plan_code) = start_trial;
    licensing_activate_offline(file) = activate_offline;
    licensing_refresh() = refresh;
    licensing_check() = check;
    licensing_migrate(legacy_key) = migrate;
    licensing_deactivate() = deactivate;
    licensing_release() = release;
    licensing_call_home() = call_home;
}

/// Asks a client with a text.
///
/// # Safety
///
/// `client` is null, or comes from `licensing_new` and is not freed; `text` can be read.
unsafe fn ask<T: Copy>(
    client: *const Client,
    text: *const c_char,
    none: T,
    question: impl FnOnce(&Client, &str) -> T,
) -> T {
    guarded(none, || {
        // SAFETY: the caller says so.
        let (client, text) = unsafe { (of_call(client), taken(text)) };
        client.map_or(none, |client| question(&client, &text.unwrap_or_default()))
    })
}

/// # Safety
///
/// As in the header: `client` is not freed, and `key` can be read.
#[no_mangle]
pub unsafe extern "C" fn licensing_has_feature(client: *const Client, key: *const c_char) -> bool {
    // SAFETY: the caller says so.
    unsafe { ask(client, key, false, Client::has_feature) }
}

/// # Safety
///
/// As in the header: `client` is not freed, and `key` can be read.
#[no_mangle]
pub unsafe extern "C" fn licensing_limit(client: *const Client, key: *const c_char) -> i64 {
    // SAFETY: the caller says so.
    unsafe { ask(client, key, 0, Client::limit) }
}

/// # Safety
///
/// As in the header: `client` is not freed, and `released_at` can be read.
#[no_mangle]
pub unsafe extern "C" fn licensing_covers(client: *const Client, released_at: *const c_char) -> bool {
    // SAFETY: the caller says so.
    unsafe { ask(client, released_at, true, Client::covers) }
}

/// # Safety
///
/// As in the header: `client` is not freed.
#[no_mangle]
pub unsafe extern "C" fn licensing_create_offline_request(client: *const Client) -> *mut c_char {
    // SAFETY: the caller says so.
    unsafe { ask(client, std::ptr::null(), null_mut(), |client, _| given(&client.create_offline_request())) }
}

/// # Safety
///
/// As in the header: `client` is not freed.
#[no_mangle]
pub unsafe extern "C" fn licensing_licence_key(client: *const Client) -> *mut c_char {
    let key = |client: &Client, _: &str| client.licence_key().map_or(null_mut(), |key| given(&key));
    // SAFETY: the caller says so.
    unsafe { ask(client, std::ptr::null(), null_mut(), key) }
}

/// # Safety
///
/// As in the header: `client` is not freed, and `listener` can be called with `user` from any thread.
#[no_mangle]
pub unsafe extern "C" fn licensing_on_change(
    client: *const Client,
    listener: Listener,
    user: *mut c_void,
    free_user: FreeUser,
) -> u64 {
    let user = User { pointer: user, free: free_user };
    let listen = |client: &Client, _: &str| {
        client.on_change(move |state| {
            let user = &user;
            listener(user.pointer, &CState::new(state));
        })
    };
    // SAFETY: the caller says so.
    unsafe { ask(client, std::ptr::null(), ListenerId(0), listen) }.0
}

/// # Safety
///
/// As in the header: `client` is not freed.
#[no_mangle]
pub unsafe extern "C" fn licensing_remove_listener(client: *const Client, listener: u64) {
    let remove = |client: &Client, _: &str| client.remove_listener(ListenerId(listener));
    // SAFETY: the caller says so.
    unsafe { ask(client, std::ptr::null(), (), remove) };
}

/// # Safety
///
/// As in the header: `client` is not freed.
#[no_mangle]
pub unsafe extern "C" fn licensing_close(client: *const Client) {
    // SAFETY: the caller says so.
    unsafe { ask(client, std::ptr::null(), (), |client, _| client.close()) };
}

/// # Safety
///
/// As in the header: the texts can be read; `error` is null, or can be written.
#[no_mangle]
pub unsafe extern "C" fn licensing_machine_fingerprint(
    app_id: *const c_char,
    file: *const c_char,
    error: *mut *mut c_char,
) -> *mut c_char {
    guarded(null_mut(), || {
        // SAFETY: the caller says so.
        let (app_id, file) = unsafe { (taken(app_id).unwrap_or_default(), taken(file)) };
        // SAFETY: the caller says so.
        unsafe { clear(error) };
        // SAFETY: the caller says so.
        machine_fingerprint(&app_id, file.as_deref().map(Path::new))
            .map_or_else(|cause| unsafe { fail(error, &cause) }, |fingerprint| given(&fingerprint))
    })
}

/// # Safety
///
/// As in the header: the arrays, their texts and the body can be read; `event` is null, or can be written.
#[no_mangle]
pub unsafe extern "C" fn licensing_verify_webhook(
    body: *const c_void,
    body_length: usize,
    headers: *const *const c_char,
    secrets: *const *const c_char,
    tolerance_seconds: f64,
    now_ms: i64,
    event: *mut *mut c_char,
) -> *const c_char {
    guarded(c"malformed_body".as_ptr(), || {
        // SAFETY: the caller says so.
        unsafe { clear(event) };
        // SAFETY: the caller says so.
        let (body, headers, secrets) =
            unsafe { (bytes(body, body_length), all_taken(headers), all_taken(secrets)) };
        let headers: Vec<_> =
            headers.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str())).collect();
        let secrets: Vec<_> = secrets.iter().map(String::as_str).collect();
        let mut options =
            WebhookOptions { now: (now_ms != 0).then_some(now_ms), ..WebhookOptions::default() };
        if tolerance_seconds > 0.0 {
            options.tolerance_seconds = tolerance_seconds;
        }
        match verify_webhook(body, SignatureHeaders::All(&headers), &secrets, options) {
            Ok(_) if event.is_null() => std::ptr::null(),
            Ok(verified) => {
                let text = serde_json::Value::Object(verified.content).to_string();
                // SAFETY: the caller says so.
                unsafe { *event = given(&text) };
                std::ptr::null()
            }
            Err(error) => error.reason_for_c().as_ptr(),
        }
    })
}
