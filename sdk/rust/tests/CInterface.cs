// The C# wrapper, against a service on this machine. Run by tests/c_interface.rs with Mono.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using Licensing;

static class CInterface
{
    static string[] answers;
    static volatile bool hangs;

    static void Check(bool condition, string what)
    {
        if (!condition) throw new Exception("not so: " + what);
    }

    static Thrown Throws<Thrown>(Func<object> work) where Thrown : Exception
    {
        try { work(); }
        catch (Thrown error) { return error; }
        throw new Exception("nothing was thrown");
    }

    static void Serve(HttpListener listener)
    {
        while (listener.IsListening)
        {
            HttpListenerContext context;
            try { context = listener.GetContext(); } catch (Exception) { return; }
            if (hangs) continue;
            var path = context.Request.RawUrl;
            var answer = Encoding.UTF8.GetBytes(path.Contains("jwks") ? answers[1] : path.Contains("revocations") ? answers[2] : answers[0]);
            context.Response.OutputStream.Write(answer, 0, answer.Length);
            context.Response.Close();
        }
    }

    static async Task Test(string address, string folder)
    {
        var options = new LicenceClientOptions
        {
            BaseUrl = address,
            AppId = "app_01kahz5k00e000000000000001",
            LicenceKey = "7ZK2M-4QX9T-B1N8V-WC3HD-60RPF",
            Fingerprint = "machine-1",
            Host = "büro.example.com",
            ProductVersion = "4.2.0",
            StoreFile = Path.Combine(folder, "csharp", "licence.json"),
            Timeout = TimeSpan.FromSeconds(20),
            Background = false,
            Clock = () => DateTimeOffset.FromUnixTimeMilliseconds(1795255200000),
        };
        Check(Throws<ArgumentException>(() => new LicenceClient(options)).Message.Contains("root_key"), "a root key is needed");
        options.RootKeys.Add("unpinned");
        var heard = new List<LicenceStatus>();
        using (var licence = new LicenceClient(options))
        {
            Check(licence.State.Status == LicenceStatus.Starting, "starting");
            var listening = licence.OnChange(changed => { heard.Add(changed.Status); throw new Exception("does no harm"); });
            var state = await licence.ActivateAsync();
            Check(state.Status == LicenceStatus.Licensed && state.Usable && state.Reason == null && state.Problem == null, "licensed");
            Check(state.ExpiresAt == new DateTimeOffset(2026, 11, 22, 10, 0, 0, TimeSpan.Zero), "expires in a day");
            Check(licence.HasFeature("export_pdf") && !licence.HasFeature("no_such_key") && licence.Limit("overdraft") == -5, "granted");
            Check(licence.Covers(DateTimeOffset.UtcNow) && licence.Covers(new DateTime(2026, 11, 1)) && licence.LicenceKey == options.LicenceKey, "covers, key");
            Check(licence.CreateOfflineRequest().Contains("büro.example.com"), "a request has the host");
            var calls = Enumerable.Range(0, 8).Select(at => at % 2 == 0 ? licence.RefreshAsync() : licence.CheckAsync());
            Check((await Task.WhenAll(calls)).All(each => each.Usable), "calls of several threads");
            Check(licence.State.Revocations == "current" && heard.First() == LicenceStatus.Licensed, "checked, heard");
            listening.Dispose();
            Check((await licence.ActivateOfflineAsync("no file")).Problem.Code == "root_key_required", "no file");

            hangs = true;
            var cancellation = new CancellationTokenSource(200);
            var cancelled = false;
            try { await licence.MigrateAsync("OLD-1", cancellation.Token); }
            catch (OperationCanceledException) { cancelled = true; }
            Check(cancelled, "cancelled");
            licence.Close();
            Check(licence.HasFeature("export_pdf") && (await licence.ReadyAsync()).Usable, "closed");
        }
        options.BaseUrl = "http://127.0.0.1:9";
        using (var later = new LicenceClient(options))
            Check((await later.ActivateAsync()).Usable && (await later.CallHomeAsync()).Problem.Code == "unreachable", "the store is read");

        options.StoreFile = null;
        var sent = new List<LicenceRequest>();
        options.Send = request =>
        {
            lock (sent) sent.Add(request);
            if (request.Url.Contains("call-home")) throw new Exception("no network");
            var answer = request.Url.Contains("jwks") ? answers[1] : answers[0];
            return new LicenceResponse { Status = 200, Body = Encoding.UTF8.GetBytes(answer) };
        };
        using (var own = new LicenceClient(options))
        {
            Check((await own.ActivateAsync()).Usable, "answers of the product's own function");
            Check(sent[0].Method == "POST" && sent[0].Body.Contains("büro.example.com"), "the request");
            Check(sent[0].Headers.Any(each => each.Key == "accept" && each.Value == "application/json"), "its headers");
            Check((await own.CallHomeAsync()).Problem.Code == "unreachable", "an exception is no answer");
        }

        Check(Machine.Fingerprint("app_1").Length == 64, "fingerprint");
        Throws<IOException>(() => Machine.Fingerprint("app_1", folder));
        var body = Encoding.UTF8.GetBytes("{\"id\":\"evt_1\",\"type\":\"webhook.test\",\"data\":{\"object\":{\"ping\":true}}}");
        var headers = new Dictionary<string, string>
        {
            ["Webhook-Signature"] = "t=1795255200,v1=1b152e1230afa0f32baa8770be2043264b17a41c8ffff8f2d36b2fb8b532da7b",
        };
        var now = DateTimeOffset.FromUnixTimeMilliseconds(1795255200000);
        Check(Webhook.Verify(body, headers, new[] { "whsec_other", "whsec_test" }, now: now).Contains("webhook.test"), "authentic");
        var refused = Throws<WebhookVerificationException>(() => Webhook.Verify(body, headers, new[] { "whsec_other" }, now: now));
        Check(refused.Reason == "signature_mismatch", refused.Reason);
    }

    static int Main(string[] given)
    {
        answers = given;
        for (var port = 18080; ; port++)
        {
            var listener = new HttpListener();
            var address = "http://127.0.0.1:" + port + "/";
            listener.Prefixes.Add(address);
            try { listener.Start(); } catch (Exception) when (port < 18180) { continue; }
            new Thread(() => Serve(listener)) { IsBackground = true }.Start();
            Test(address, given[3]).GetAwaiter().GetResult();
            Console.WriteLine("the C# wrapper is right");
            Environment.Exit(0); // the listener waits for the requests that hang
        }
    }
}
