// The driver of the SDKs' common suite (`sdk/suite`) for C#: reads calls as JSON lines, and writes their outcomes.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Licensing;
using Fields = System.Collections.Generic.Dictionary<string, object>;

static class Driver
{
    sealed class Driven
    {
        internal LicenceClient Client;
        internal DateTimeOffset? Clock;
    }

    static readonly ConcurrentDictionary<string, Driven> clients = new ConcurrentDictionary<string, Driven>();

    static void Main()
    {
        ThreadPool.SetMinThreads(32, 32);
        var running = new List<Task>();
        for (string line; (line = Console.ReadLine()) != null;)
        {
            var order = (Fields)new Json(line).Value();
            if ((string)order["call"] == "exit") Environment.Exit(Convert.ToInt32(order["argument"]));
            if ((string)order["call"] == "new") Answer(order).Wait(); // a later line may use the client
            else running.Add(Task.Run(() => Answer(order)));
        }
        Task.WaitAll(running.ToArray());
        Environment.Exit(0);
    }

    static async Task Answer(Fields order)
    {
        Fields outcome;
        try { outcome = await Outcome(order); }
        catch (Exception error) { outcome = new Fields { ["threw"] = error.Message }; }
        outcome["id"] = order["id"];
        lock (clients) Console.WriteLine(Json.Text(outcome));
    }

    static object Field(object fields, string name) => fields is Fields all && all.TryGetValue(name, out var value) ? value : null;

    static string[] Texts(object value) =>
        value is string text ? new[] { text } : ((System.Collections.IEnumerable)value)?.Cast<string>().ToArray() ?? new string[0];

    static DateTimeOffset? Time(object text) => text == null ? (DateTimeOffset?)null
        : DateTimeOffset.Parse((string)text, CultureInfo.InvariantCulture, DateTimeStyles.AssumeUniversal);

    static Fields One(string name, object value) => new Fields { [name] = value };

    static async Task<Fields> Outcome(Fields order)
    {
        var argument = Field(order, "argument");
        var name = (string)Field(order, "client") ?? "a";
        switch ((string)order["call"])
        {
            case "new":
                clients[name] = Open(Field(order, "options"));
                return One("ok", true);
            case "machine_fingerprint":
                return One("text", Machine.Fingerprint((string)Field(argument, "app_id"), (string)Field(argument, "file")));
            case "verify_webhook":
                return Verified(argument);
        }
        var driven = clients[name];
        var client = driven.Client;
        switch ((string)order["call"])
        {
            case "has_feature": return One("value", client.HasFeature((string)argument));
            case "limit": return One("value", client.Limit((string)argument));
            case "covers": return One("value", client.Covers(Time(argument).Value));
            case "create_offline_request": return One("text", client.CreateOfflineRequest());
            case "close": client.Close(); return One("ok", true);
            case "clock": driven.Clock = Time(argument); return One("ok", true);
            case "state": return State(client.State);
            case "ready": return State(await client.ReadyAsync());
            case "activate": return State(await client.ActivateAsync());
            case "activate_offline": return State(await client.ActivateOfflineAsync((string)argument));
            case "start_trial": return State(await client.StartTrialAsync((string)argument));
            case "refresh": return State(await client.RefreshAsync());
            case "check": return State(await client.CheckAsync());
            case "migrate": return State(await client.MigrateAsync((string)argument));
            case "release": return State(await client.ReleaseAsync());
            case "deactivate": return State(await client.DeactivateAsync());
            case "call_home": return State(await client.CallHomeAsync());
            default: throw new ArgumentException("no call is named " + order["call"]);
        }
    }

    static Driven Open(object fields)
    {
        Func<string, string> text = name => (string)Field(fields, name);
        var driven = new Driven();
        driven.Client = new LicenceClient(new LicenceClientOptions
        {
            BaseUrl = text("base_url"),
            AppId = text("app_id"),
            RootKeys = Texts(Field(fields, "root_key")),
            LicenceKey = text("licence_key"),
            Fingerprint = text("fingerprint"),
            Host = text("host"),
            ProductVersion = text("product_version"),
            StoreFile = text("store_file"),
            Timeout = TimeSpan.FromMilliseconds(Convert.ToDouble(Field(fields, "timeout_ms") ?? 5000)),
            Background = (bool)(Field(fields, "background") ?? true),
            Clock = () => driven.Clock ?? DateTimeOffset.UtcNow,
        });
        return driven;
    }

    static Fields Verified(object argument)
    {
        var signature = (string)Field(argument, "signature");
        var headers = signature != null ? new Dictionary<string, string> { ["Webhook-Signature"] = signature }
            : ((Fields)Field(argument, "headers") ?? new Fields()).ToDictionary(header => header.Key, header => (string)header.Value);
        var tolerance = Field(argument, "tolerance_seconds");
        try
        {
            var verified = Webhook.Verify(Convert.FromBase64String((string)Field(argument, "body_base64")), headers,
                Texts(Field(argument, "secrets")), tolerance == null ? (TimeSpan?)null : TimeSpan.FromSeconds(Convert.ToDouble(tolerance)),
                Time(Field(argument, "now")));
            return One("event", new Json(verified).Value());
        }
        catch (WebhookVerificationException refused) { return One("reason", refused.Reason); }
    }

    /// <summary>A state in the notation of the vectors.</summary>
    static Fields State(LicenceState state)
    {
        Func<DateTimeOffset?, object> text = time => time?.UtcDateTime.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z'", CultureInfo.InvariantCulture);
        return One("state", new Fields
        {
            ["status"] = state.Status.ToString().ToLowerInvariant(),
            ["usable"] = state.Usable,
            ["reason"] = state.Reason,
            ["licence_id"] = state.LicenceId,
            ["activation_id"] = state.ActivationId,
            ["plan_id"] = state.PlanId,
            ["licence_status"] = state.LicenceStatus,
            ["seats"] = state.Seats,
            ["updates_until"] = text(state.UpdatesUntil),
            ["expires_at"] = text(state.ExpiresAt),
            ["refresh_after"] = text(state.RefreshAfter),
            ["offline"] = state.Offline,
            ["revocations"] = state.Revocations,
            ["clock_turned_back"] = state.ClockTurnedBack,
            ["problem"] = state.Problem?.Code,
        });
    }
}

/// <summary>JSON, which Mono's runtime alone does not read.</summary>
sealed class Json
{
    readonly string text;
    int at;

    internal Json(string text) { this.text = text; }

    internal object Value()
    {
        switch (Next())
        {
            case '{': return All(new Fields(), all => { var name = Quoted(); Skip(':'); all[name] = Value(); }, '}');
            case '[': return All(new List<object>(), all => all.Add(Value()), ']');
            case '"': return Quoted();
            case 't': at += 4; return true;
            case 'f': at += 5; return false;
            case 'n': at += 4; return null;
        }
        var start = at;
        while (at < text.Length && "+-.eE0123456789".IndexOf(text[at]) >= 0) at++;
        return double.Parse(text.Substring(start, at - start), CultureInfo.InvariantCulture);
    }

    T All<T>(T all, Action<T> read, char end)
    {
        at++;
        while (Next() != end)
        {
            read(all);
            if (Next() == ',') at++;
        }
        at++;
        return all;
    }

    char Next()
    {
        while (char.IsWhiteSpace(text[at])) at++;
        return text[at];
    }

    void Skip(char mark)
    {
        if (Next() != mark) throw new FormatException("not JSON");
        at++;
    }

    string Quoted()
    {
        Skip('"');
        var content = new StringBuilder();
        for (; text[at] != '"'; at++)
        {
            if (text[at] != '\\') { content.Append(text[at]); continue; }
            var escape = "bfnrt".IndexOf(text[++at]);
            if (text[at] != 'u') { content.Append(escape < 0 ? text[at] : "\b\f\n\r\t"[escape]); continue; }
            content.Append((char)Convert.ToInt32(text.Substring(at + 1, 4), 16));
            at += 4;
        }
        at++;
        return content.ToString();
    }

    internal static string Text(object value)
    {
        if (value == null) return "null";
        if (value is bool) return (bool)value ? "true" : "false";
        if (value is Fields all) return "{" + string.Join(",", all.Select(field => Text(field.Key) + ":" + Text(field.Value))) + "}";
        if (value is IEnumerable<object> list) return "[" + string.Join(",", list.Select(Text)) + "]";
        if (!(value is string)) return Convert.ToString(value, CultureInfo.InvariantCulture);
        var escaped = ((string)value).Select(c => c < ' ' || c == '"' || c == '\\' || char.IsSurrogate(c) ? "\\u" + ((int)c).ToString("x4") : c.ToString());
        return "\"" + string.Concat(escaped) + "\"";
    }
}
