// Licences in installed products, for .NET Standard 2.0: calls the shared library of the Rust SDK (liblicensing.so, licensing.dll,
// liblicensing.dylib), which lies beside the program or where the system looks for libraries.
// README.md has an example.

using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Licensing
{
    /// <summary>The options of a client.</summary>
    public sealed class LicenceClientOptions
    {
        /// <summary>Address of the licensing service: <c>https://licensing.example.com</c>.</summary>
        public string BaseUrl { get; set; } = "";
        /// <summary>The application's id, <c>app_…</c>.</summary>
        public string AppId { get; set; } = "";
        /// <summary>The application's root key, or several while one is being replaced. Compile it into the product.</summary>
        public IList<string> RootKeys { get; set; } = new List<string>();
        /// <summary>The customer's licence key; null to use the stored one.</summary>
        public string LicenceKey { get; set; }
        /// <summary>Identifies this machine: see <see cref="Machine.Fingerprint"/>.</summary>
        public string Fingerprint { get; set; } = "";
        /// <summary>The name of the machine, or the domain that the product serves.</summary>
        public string Host { get; set; } = "";
        /// <summary>The product's version.</summary>
        public string ProductVersion { get; set; } = "";
        /// <summary>Keeps the licence over restarts; null: in memory, which keeps nothing.</summary>
        public string StoreFile { get; set; }
        /// <summary>Of each call.</summary>
        public TimeSpan Timeout { get; set; } = TimeSpan.FromSeconds(5);
        /// <summary>Whether the client checks and refreshes by itself between calls.</summary>
        public bool Background { get; set; } = true;
        /// <summary>The local clock; null: that of the system.</summary>
        public Func<DateTimeOffset> Clock { get; set; }
        /// <summary>
        /// Sends a request, without following redirects: with an HTTP library of the product, or in tests. It throws if there is no answer.
        /// </summary>
        public Func<LicenceRequest, LicenceResponse> Send { get; set; }
    }

    /// <summary>An HTTP request of the client.</summary>
    public sealed class LicenceRequest
    {
        public string Method { get; internal set; }
        /// <summary>The whole address.</summary>
        public string Url { get; internal set; }
        public IList<KeyValuePair<string, string>> Headers { get; internal set; }
        /// <summary>JSON, or null.</summary>
        public string Body { get; internal set; }
        /// <summary>How long the client waits for the whole answer.</summary>
        public TimeSpan Timeout { get; internal set; }
    }

    /// <summary>An HTTP answer.</summary>
    public sealed class LicenceResponse
    {
        public int Status { get; set; }
        public IDictionary<string, string> Headers { get; set; } = new Dictionary<string, string>();
        public byte[] Body { get; set; } = new byte[0];
    }

    /// <summary>Whether and how the product is licensed.</summary>
    public enum LicenceStatus { Starting, Licensed, Grace, Lapsed, Refused, Unlicensed }

    /// <summary>Everything that a product may need to know about its licence, at one moment.</summary>
    public sealed class LicenceState
    {
        public LicenceStatus Status { get; internal set; }
        /// <summary>Whether features and limits are granted now.</summary>
        public bool Usable { get; internal set; }
        /// <summary>Why the product is not licensed; else null.</summary>
        public string Reason { get; internal set; }
        public string LicenceId { get; internal set; }
        public string ActivationId { get; internal set; }
        public string PlanId { get; internal set; }
        /// <summary>The status of the licence when the service signed the token: active or downgraded.</summary>
        public string LicenceStatus { get; internal set; }
        public long? Seats { get; internal set; }
        public DateTimeOffset? UpdatesUntil { get; internal set; }
        public DateTimeOffset? ExpiresAt { get; internal set; }
        public DateTimeOffset? RefreshAfter { get; internal set; }
        /// <summary>Whether the token came in a file.</summary>
        public bool Offline { get; internal set; }
        /// <summary>The revocation list: current, stale or unknown.</summary>
        public string Revocations { get; internal set; }
        public bool ClockTurnedBack { get; internal set; }
        /// <summary>The most recent problem, for a log; else null.</summary>
        public LicenceProblem Problem { get; internal set; }
    }

    /// <summary>A problem, for a log.</summary>
    public sealed class LicenceProblem
    {
        public string Operation { get; internal set; }
        public string Code { get; internal set; }
        public string Detail { get; internal set; }
        public DateTimeOffset? At { get; internal set; }
    }

    /// <summary>
    /// The licence of one installation of a product. Only the constructor throws, if a root key is missing or malformed; an asynchronous
    /// call also when it is cancelled: then the call goes on, but is not waited for. All members can be used from several threads.
    /// </summary>
    public sealed class LicenceClient : IDisposable
    {
        readonly Native.ClientHandle client;

        /// <exception cref="ArgumentException">A root key is missing or malformed.</exception>
        public LicenceClient(LicenceClientOptions options)
        {
            client = Native.Open(options ?? throw new ArgumentNullException(nameof(options)));
            AppDomain.CurrentDomain.ProcessExit += CloseAtExit; // Mono waits for threads that have called a function of the program
        }

        /// <summary>The current state, without a call.</summary>
        public LicenceState State => Native.TakenState(Native.licensing_state_of(client));
        /// <summary>The licence key in use; else null.</summary>
        public string LicenceKey => Native.Taken(Native.licensing_licence_key(client));
        /// <summary>Reads the store and verifies its content, without the network.</summary>
        public Task<LicenceState> ReadyAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_ready, cancellationToken);
        /// <summary>Activates the product: call it at every start. It needs no network if the store has a valid token.</summary>
        public Task<LicenceState> ActivateAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_activate, cancellationToken);
        /// <summary>Starts a trial, or continues it: instead of ActivateAsync in a product that has no licence key.</summary>
        public Task<LicenceState> StartTrialAsync(string planCode, CancellationToken cancellationToken = default) =>
            Run(client => Native.licensing_start_trial(client, Native.Utf8(planCode)), cancellationToken);
        /// <summary>Reads the text of a licence file from the vendor, without the network.</summary>
        public Task<LicenceState> ActivateOfflineAsync(string file, CancellationToken cancellationToken = default) =>
            Run(client => Native.licensing_activate_offline(client, Native.Utf8(file)), cancellationToken);
        /// <summary>Renews the token now.</summary>
        public Task<LicenceState> RefreshAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_refresh, cancellationToken);
        /// <summary>Checks the revocation list now.</summary>
        public Task<LicenceState> CheckAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_check, cancellationToken);
        /// <summary>Exchanges a key of the vendor's former system for a licence key, once, and activates that.</summary>
        public Task<LicenceState> MigrateAsync(string legacyKey, CancellationToken cancellationToken = default) =>
            Run(client => Native.licensing_migrate(client, Native.Utf8(legacyKey)), cancellationToken);
        /// <summary>Frees the activation of this machine, so that the licence can be used on another one.</summary>
        public Task<LicenceState> DeactivateAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_deactivate, cancellationToken);
        /// <summary>Ends the lease of a floating licence, so that another installation can use it at once.</summary>
        public Task<LicenceState> ReleaseAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_release, cancellationToken);
        /// <summary>Reports to the vendor that this installation is in use.</summary>
        public Task<LicenceState> CallHomeAsync(CancellationToken cancellationToken = default) => Run(Native.licensing_call_home, cancellationToken);
        /// <summary>Whether a feature is granted now. Returns at once.</summary>
        public bool HasFeature(string key) => Native.licensing_has_feature(client, Native.Utf8(key)) != 0;
        /// <summary>The current value of a limit; 0 if nothing is granted. Returns at once.</summary>
        public long Limit(string key) => Native.licensing_limit(client, Native.Utf8(key));
        /// <summary>Whether the licence includes updates to a release of this time.</summary>
        public bool Covers(DateTimeOffset releasedAt) =>
            Native.licensing_covers(client, Native.Utf8(releasedAt.UtcDateTime.ToString("o"))) != 0;
        /// <summary>The same for a time that may name no zone: then it is in UTC.</summary>
        public bool Covers(DateTime releasedAt) =>
            Covers(new DateTimeOffset(releasedAt.Kind == DateTimeKind.Unspecified ? DateTime.SpecifyKind(releasedAt, DateTimeKind.Utc) : releasedAt));
        /// <summary>A request for a licence file, for a machine without a network: JSON.</summary>
        public string CreateOfflineRequest() => Native.Taken(Native.licensing_create_offline_request(client));
        /// <summary>Calls a listener after each change of the state, on a thread of the client, until the result is disposed.</summary>
        public IDisposable OnChange(Action<LicenceState> listener)
        {
            var user = Native.Keep(listener ?? throw new ArgumentNullException(nameof(listener)));
            var id = Native.licensing_on_change(client, Native.Listen, user, Native.FreeUser);
            return new Subscription(() => Native.licensing_remove_listener(client, id));
        }
        /// <summary>
        /// Ends the background work and the client's thread. HasFeature and Limit still use the current token; other calls return the state
        /// without the network.
        /// </summary>
        public void Close() => Native.licensing_close(client);
        /// <summary>Closes the client, which must not be used any more.</summary>
        public void Dispose()
        {
            AppDomain.CurrentDomain.ProcessExit -= CloseAtExit;
            if (!client.IsClosed) Close();
            client.Dispose();
        }
        void CloseAtExit(object sender, EventArgs arguments) => Close();

        async Task<LicenceState> Run(Func<Native.ClientHandle, IntPtr> call, CancellationToken cancellationToken)
        {
            cancellationToken.ThrowIfCancellationRequested();
            // A call waits for the network, so it has a thread of its own instead of one of the pool.
            var state = Task.Factory.StartNew(() => Native.TakenState(call(client)),
                CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
            var cancelled = new TaskCompletionSource<bool>(TaskCreationOptions.RunContinuationsAsynchronously);
            using (cancellationToken.Register(() => cancelled.TrySetResult(true)))
                await Task.WhenAny(state, cancelled.Task).ConfigureAwait(false);
            if (!state.IsCompleted) cancellationToken.ThrowIfCancellationRequested();
            return await state.ConfigureAwait(false);
        }

        sealed class Subscription : IDisposable
        {
            Action end;
            internal Subscription(Action end) { this.end = end; }
            public void Dispose()
            {
                try { Interlocked.Exchange(ref end, null)?.Invoke(); }
                catch (ObjectDisposedException) { } // the client ended it
            }
        }
    }

    /// <summary>This machine.</summary>
    public static class Machine
    {
        /// <summary>64 hexadecimal characters, the same at every start. With a file, made from a random id in it: for containers.</summary>
        /// <exception cref="System.IO.IOException">The file can be neither read nor written.</exception>
        public static string Fingerprint(string appId, string file = null)
        {
            var fingerprint = Native.licensing_machine_fingerprint(Native.Utf8(appId), Native.Utf8(file), out var error);
            var why = Native.Taken(error);
            return Native.Taken(fingerprint) ?? throw new System.IO.IOException(why);
        }
    }

    /// <summary>A delivery that must not be acted on: answer it with 400.</summary>
    public sealed class WebhookVerificationException : Exception
    {
        /// <summary>no_secret, malformed_header, signature_mismatch, timestamp_outside_tolerance or malformed_body.</summary>
        public string Reason { get; }
        internal WebhookVerificationException(string reason) : base(reason) { Reason = reason; }
    }

    public static class Webhook
    {
        /// <summary>Verifies a delivery with its raw body, its headers and the secrets of the endpoint; returns the JSON of the event.</summary>
        /// <exception cref="WebhookVerificationException">The delivery must not be trusted.</exception>
        public static string Verify(byte[] rawBody, IEnumerable<KeyValuePair<string, string>> headers, IEnumerable<string> secrets,
            TimeSpan? tolerance = null, DateTimeOffset? now = null)
        {
            using (var texts = new Native.Texts())
            {
                var reason = Native.licensing_verify_webhook(
                    rawBody, (UIntPtr)rawBody.Length, texts.Array(Native.InTurn(headers)), texts.Array(secrets),
                    tolerance?.TotalSeconds ?? 0, now?.ToUnixTimeMilliseconds() ?? 0, out var verified);
                var text = Native.Taken(verified);
                if (reason != IntPtr.Zero) throw new WebhookVerificationException(Native.Text(reason));
                return text;
            }
        }
    }

    /// <summary>The functions of licensing.h.</summary>
    static class Native
    {
        const string Library = "licensing";
        const CallingConvention C = CallingConvention.Cdecl;

        internal sealed class ClientHandle : SafeHandle
        {
            public ClientHandle() : base(IntPtr.Zero, true) { }
            public override bool IsInvalid => handle == IntPtr.Zero;
            protected override bool ReleaseHandle() { licensing_free(handle); return true; }
        }

        [UnmanagedFunctionPointer(C)] internal delegate long ClockFunction(IntPtr user);
        [UnmanagedFunctionPointer(C)] internal delegate byte SendFunction(IntPtr user, IntPtr request, IntPtr response);
        [UnmanagedFunctionPointer(C)] internal delegate void ListenFunction(IntPtr user, IntPtr state);
        [UnmanagedFunctionPointer(C)] internal delegate void UserFunction(IntPtr user);

        [StructLayout(LayoutKind.Sequential)]
        internal struct Options
        {
            public IntPtr BaseUrl, AppId, RootKeys, LicenceKey, Fingerprint, Host, ProductVersion, StoreFile;
            public uint TimeoutMs;
            public byte NoBackground;
            public IntPtr Clock, Send, User, FreeUser;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct Request
        {
            public IntPtr Method, Url, Headers, Body;
            public uint TimeoutMs;
        }

        [StructLayout(LayoutKind.Sequential)]
        internal struct State
        {
            public int Status;
            public byte Usable, Offline, ClockTurnedBack, HasSeats;
            public long Seats;
            /// <summary>reason, licence_id and so on to problem_at, in the order of the header.</summary>
            [MarshalAs(UnmanagedType.ByValArray, SizeConst = 13)] public IntPtr[] Texts;
        }

        [DllImport(Library, CallingConvention = C)] static extern ClientHandle licensing_new(ref Options options, out IntPtr error);
        [DllImport(Library, CallingConvention = C)] static extern void licensing_free(IntPtr client);
        [DllImport(Library, CallingConvention = C)] static extern void licensing_state_free(IntPtr state);
        [DllImport(Library, CallingConvention = C)] static extern void licensing_string_free(IntPtr text);
        [DllImport(Library, CallingConvention = C)] internal static extern void licensing_close(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_state_of(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_ready(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_activate(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_start_trial(ClientHandle client, byte[] plan);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_activate_offline(ClientHandle client, byte[] file);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_refresh(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_check(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_migrate(ClientHandle client, byte[] key);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_deactivate(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_release(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_call_home(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern byte licensing_has_feature(ClientHandle client, byte[] key);
        [DllImport(Library, CallingConvention = C)] internal static extern long licensing_limit(ClientHandle client, byte[] key);
        [DllImport(Library, CallingConvention = C)] internal static extern byte licensing_covers(ClientHandle client, byte[] time);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_create_offline_request(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_licence_key(ClientHandle client);
        [DllImport(Library, CallingConvention = C)] internal static extern ulong licensing_on_change(
            ClientHandle client, ListenFunction listener, IntPtr user, UserFunction freeUser);
        [DllImport(Library, CallingConvention = C)] internal static extern void licensing_remove_listener(ClientHandle client, ulong id);
        [DllImport(Library, CallingConvention = C)] static extern void licensing_response_set(
            IntPtr response, ushort status, IntPtr headers, byte[] body, UIntPtr length);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_machine_fingerprint(
            byte[] appId, byte[] file, out IntPtr error);
        [DllImport(Library, CallingConvention = C)] internal static extern IntPtr licensing_verify_webhook(
            byte[] body, UIntPtr length, IntPtr headers, IntPtr secrets, double tolerance, long now, out IntPtr verified);

        // The library calls these from its threads, so they must live as long as the program. No exception leaves them.
        internal static readonly ListenFunction Listen = (user, state) =>
        {
            try { ((Action<LicenceState>)Kept(user))(Read(state)); } catch { } // an error of a listener does not affect the licence
        };
        internal static readonly UserFunction FreeUser = user => kept.TryRemove(user.ToInt64(), out _);
        static readonly ClockFunction Clock = user =>
        {
            try { return ((LicenceClientOptions)Kept(user)).Clock().ToUnixTimeMilliseconds(); }
            catch { return long.MaxValue; } // no time: the library uses the clock of the system
        };
        static readonly SendFunction Send = (user, pointer, response) =>
        {
            try
            {
                var from = Marshal.PtrToStructure<Request>(pointer);
                var headers = TextsAt(from.Headers).ToArray();
                var answer = ((LicenceClientOptions)Kept(user)).Send(new LicenceRequest
                {
                    Method = Text(from.Method),
                    Url = Text(from.Url),
                    Headers = Enumerable.Range(0, headers.Length / 2)
                        .Select(at => new KeyValuePair<string, string>(headers[2 * at], headers[2 * at + 1])).ToList(),
                    Body = Text(from.Body),
                    Timeout = TimeSpan.FromMilliseconds(from.TimeoutMs),
                });
                using (var texts = new Texts())
                    licensing_response_set(
                        response, (ushort)answer.Status, texts.Array(InTurn(answer.Headers)), answer.Body, (UIntPtr)answer.Body.Length);
                return 1;
            }
            catch { return 0; } // there is no answer
        };
        // Objects that the library knows by a number.
        static readonly ConcurrentDictionary<long, object> kept = new ConcurrentDictionary<long, object>();
        static long lastKept;

        internal static IntPtr Keep(object user)
        {
            var number = Interlocked.Increment(ref lastKept);
            kept[number] = user;
            return new IntPtr(number);
        }

        static object Kept(IntPtr user) => kept[user.ToInt64()];
        internal static ClientHandle Open(LicenceClientOptions from)
        {
            using (var texts = new Texts())
            {
                var options = new Options
                {
                    BaseUrl = texts.Add(from.BaseUrl),
                    AppId = texts.Add(from.AppId),
                    RootKeys = texts.Array(from.RootKeys),
                    LicenceKey = texts.Add(from.LicenceKey),
                    Fingerprint = texts.Add(from.Fingerprint),
                    Host = texts.Add(from.Host),
                    ProductVersion = texts.Add(from.ProductVersion),
                    StoreFile = texts.Add(from.StoreFile),
                    TimeoutMs = (uint)from.Timeout.TotalMilliseconds,
                    NoBackground = (byte)(from.Background ? 0 : 1),
                    Clock = from.Clock == null ? IntPtr.Zero : Marshal.GetFunctionPointerForDelegate(Clock),
                    Send = from.Send == null ? IntPtr.Zero : Marshal.GetFunctionPointerForDelegate(Send),
                    User = Keep(from),
                    FreeUser = Marshal.GetFunctionPointerForDelegate(FreeUser),
                };
                var client = licensing_new(ref options, out var error);
                return Taken(error) is string why ? throw new ArgumentException(why) : client;
            }
        }

        internal static IEnumerable<string> InTurn(IEnumerable<KeyValuePair<string, string>> headers) =>
            headers.SelectMany(header => new[] { header.Key, header.Value });

        /// <summary>Takes over a text of the library.</summary>
        internal static string Taken(IntPtr text) { try { return Text(text); } finally { licensing_string_free(text); } }

        static LicenceState Read(IntPtr pointer)
        {
            var from = Marshal.PtrToStructure<State>(pointer);
            var texts = from.Texts.Select(Text).ToArray();
            return new LicenceState
            {
                Status = (LicenceStatus)from.Status,
                Usable = from.Usable != 0,
                Offline = from.Offline != 0,
                ClockTurnedBack = from.ClockTurnedBack != 0,
                Seats = from.HasSeats == 0 ? (long?)null : from.Seats,
                Reason = texts[0],
                LicenceId = texts[1],
                ActivationId = texts[2],
                PlanId = texts[3],
                LicenceStatus = texts[4],
                UpdatesUntil = Time(texts[5]),
                ExpiresAt = Time(texts[6]),
                RefreshAfter = Time(texts[7]),
                Revocations = texts[8],
                Problem = texts[10] == null ? null
                    : new LicenceProblem { Operation = texts[9], Code = texts[10], Detail = texts[11], At = Time(texts[12]) },
            };
        }

        /// <summary>Takes over a state of the library.</summary>
        internal static LicenceState TakenState(IntPtr state) { try { return Read(state); } finally { licensing_state_free(state); } }

        /// <summary>A time; null if it is none, or outside of the range of .NET.</summary>
        static DateTimeOffset? Time(string text) =>
            DateTimeOffset.TryParse(text, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal, out var time) ? time : (DateTimeOffset?)null;

        internal static string Text(IntPtr text)
        {
            if (text == IntPtr.Zero) return null;
            var bytes = new List<byte>();
            for (byte next; (next = Marshal.ReadByte(text, bytes.Count)) != 0;) bytes.Add(next);
            return Encoding.UTF8.GetString(bytes.ToArray());
        }
        /// <summary>The texts of an array that ends with a null pointer.</summary>
        static IEnumerable<string> TextsAt(IntPtr array)
        {
            for (IntPtr text; (text = Marshal.ReadIntPtr(array)) != IntPtr.Zero; array += IntPtr.Size) yield return Text(text);
        }
        /// <summary>A text in UTF-8 that ends with NUL.</summary>
        internal static byte[] Utf8(string text) => text == null ? null : Encoding.UTF8.GetBytes(text + "\0");
        /// <summary>Texts for the library, freed together.</summary>
        internal sealed class Texts : IDisposable
        {
            readonly List<IntPtr> all = new List<IntPtr>();

            internal IntPtr Add(string text) => text == null ? IntPtr.Zero : Copy(Utf8(text), Marshal.Copy);

            /// <summary>An array of texts that ends with a null pointer.</summary>
            internal IntPtr Array(IEnumerable<string> texts) => Copy(texts.Select(Add).Concat(new[] { IntPtr.Zero }).ToArray(), Marshal.Copy);

            IntPtr Copy<T>(T[] from, Action<T[], int, IntPtr, int> copy)
            {
                var to = Marshal.AllocHGlobal(from.Length * Marshal.SizeOf<T>());
                all.Add(to);
                copy(from, 0, to, from.Length);
                return to;
            }

            public void Dispose() { foreach (var each in all) Marshal.FreeHGlobal(each); }
        }
    }
}
