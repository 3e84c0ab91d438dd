package licensing;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.Authenticator;
import java.net.ConnectException;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandler;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.PushPromiseHandler;
import java.net.http.HttpResponse.ResponseInfo;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.function.Function;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/** An {@code HttpClient} that gives the answers of a script, and records the requests. */
final class ScriptedService extends HttpClient {
  record Seen(String request, HttpHeaders headers, Map<String, Object> json) {}

  /** An answer; {@code fails} is {@code unreachable} or {@code never}, else null. */
  record Reply(int status, Map<String, String> headers, String text, String fails) {
    static Reply of(int status, Object json) {
      return new Reply(status, Map.of("content-type", "application/json"), Json.write(json), null);
    }

    static Reply unreachable() {
      return new Reply(0, Map.of(), "", "unreachable");
    }
  }

  final List<Seen> requests = new CopyOnWriteArrayList<>();
  private final Function<Seen, Reply> script;

  ScriptedService(Function<Seen, Reply> script) {
    this.script = script;
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(
      HttpRequest request, BodyHandler<T> handler) {
    URI uri = request.uri();
    String path = uri.getRawPath() + (uri.getRawQuery() == null ? "" : "?" + uri.getRawQuery());
    String body = bodyOf(request);
    Seen seen = new Seen(request.method() + " " + path, request.headers(), Json.parseObject(body));
    requests.add(seen);
    Reply reply = script.apply(seen);
    if (reply == null)
      return CompletableFuture.failedFuture(new AssertionError("no request was expected: " + seen));
    if ("never".equals(reply.fails)) return new CompletableFuture<>();
    if (reply.fails != null)
      return CompletableFuture.failedFuture(new ConnectException("not reachable"));
    return answer(request, reply, handler);
  }

  private static <T> CompletableFuture<HttpResponse<T>> answer(
      HttpRequest request, Reply reply, BodyHandler<T> handler) {
    Map<String, List<String>> lists = new java.util.HashMap<>();
    reply.headers.forEach((name, value) -> lists.put(name, List.of(value)));
    HttpHeaders headers = HttpHeaders.of(lists, (name, value) -> true);
    BodySubscriber<T> subscriber =
        handler.apply(
            new ResponseInfo() {
              @Override
              public int statusCode() {
                return reply.status;
              }

              @Override
              public HttpHeaders headers() {
                return headers;
              }

              @Override
              public Version version() {
                return Version.HTTP_1_1;
              }
            });
    subscriber.onSubscribe(new NoSubscription());
    subscriber.onNext(List.of(ByteBuffer.wrap(reply.text.getBytes(StandardCharsets.UTF_8))));
    subscriber.onComplete();
    return subscriber
        .getBody()
        .toCompletableFuture()
        .thenApply(body -> new Response<>(request, reply.status, headers, body));
  }

  private static final class NoSubscription implements Flow.Subscription {
    @Override
    public void request(long n) {}

    @Override
    public void cancel() {}
  }

  private record Response<T>(HttpRequest request, int statusCode, HttpHeaders headers, T body)
      implements HttpResponse<T> {
    @Override
    public Optional<HttpResponse<T>> previousResponse() {
      return Optional.empty();
    }

    @Override
    public Optional<javax.net.ssl.SSLSession> sslSession() {
      return Optional.empty();
    }

    @Override
    public URI uri() {
      return request.uri();
    }

    @Override
    public Version version() {
      return Version.HTTP_1_1;
    }
  }

  private static String bodyOf(HttpRequest request) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    request
        .bodyPublisher()
        .ifPresent(
            publisher ->
                publisher.subscribe(
                    new Flow.Subscriber<>() {
                      @Override
                      public void onSubscribe(Flow.Subscription subscription) {
                        subscription.request(Long.MAX_VALUE);
                      }

                      @Override
                      public void onNext(ByteBuffer buffer) {
                        byte[] chunk = new byte[buffer.remaining()];
                        buffer.get(chunk);
                        bytes.writeBytes(chunk);
                      }

                      @Override
                      public void onError(Throwable failed) {}

                      @Override
                      public void onComplete() {}
                    }));
    return bytes.toString(StandardCharsets.UTF_8);
  }

  @Override
  public <T> HttpResponse<T> send(HttpRequest request, BodyHandler<T> handler) throws IOException {
    throw new UnsupportedOperationException();
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(
      HttpRequest request, BodyHandler<T> handler, PushPromiseHandler<T> pushPromiseHandler) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Optional<CookieHandler> cookieHandler() {
    return Optional.empty();
  }

  @Override
  public Optional<Duration> connectTimeout() {
    return Optional.empty();
  }

  @Override
  public Redirect followRedirects() {
    return Redirect.NEVER;
  }

  @Override
  public Optional<ProxySelector> proxy() {
    return Optional.empty();
  }

  @Override
  public SSLContext sslContext() {
    return null;
  }

  @Override
  public SSLParameters sslParameters() {
    return new SSLParameters();
  }

  @Override
  public Optional<Authenticator> authenticator() {
    return Optional.empty();
  }

  @Override
  public Version version() {
    return Version.HTTP_1_1;
  }

  @Override
  public Optional<Executor> executor() {
    return Optional.empty();
  }
}
