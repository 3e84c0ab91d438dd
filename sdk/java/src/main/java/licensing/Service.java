package licensing;

import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodySubscriber;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Supplier;

/** Makes all requests. Never throws. */
final class Service {
  /**
   * The longest {@code Retry-After} that is followed, so that one absurd answer does not lock a
   * product out.
   */
  private static final long MAX_RETRY_AFTER_MS = 3_600_000;

  /**
   * A whole revocation list has about 1.3 MB. A longer answer is of another server, and would fill
   * the memory.
   */
  private static final int MAX_ANSWER_BYTES = 2 * 1024 * 1024;

  private final String base;
  private final Supplier<HttpClient> http;

  Service(String baseUrl, Supplier<HttpClient> http) {
    this.base = baseUrl.replaceAll("/+$", "");
    this.http = http;
  }

  /**
   * @param path begins with {@code /v1}
   * @param body null if there is none
   * @param token that authorises the call, or null
   */
  record Call(
      String method, String path, Map<String, Object> body, String token, String ifNoneMatch) {
    static Call get(String path, String ifNoneMatch) {
      return new Call("GET", path, null, null, ifNoneMatch);
    }

    static Call post(String path, Map<String, Object> body, String token) {
      return new Call("POST", path, body, token, null);
    }

    static Call delete(String path, String token) {
      return new Call("DELETE", path, null, token, null);
    }
  }

  /**
   * @param deadline of {@link System#nanoTime}
   * @param stopped completes when the client is closed
   */
  Answer ask(Call call, long deadline, CompletableFuture<Void> stopped) {
    CompletableFuture<HttpResponse<byte[]>> exchange = new CompletableFuture<>();
    try {
      // An invalid address must not stop the start of a product: it counts as unreachable.
      exchange = http.get().sendAsync(requestOf(call), response -> new LimitedBody());
      CompletableFuture.anyOf(exchange, stopped)
          .get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
      if (!exchange.isDone()) throw new TimeoutException();
      return answerIn(exchange.get());
    } catch (TimeoutException late) {
      return new Answer.Failure(Reasons.TIMEOUT, call.path + " was not answered in time");
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
      return new Answer.Failure(Reasons.TIMEOUT, call.path + " was interrupted");
    } catch (ExecutionException failed) {
      return new Answer.Failure(Reasons.UNREACHABLE, String.valueOf(failed.getCause()));
    } catch (Exception failed) {
      return new Answer.Failure(Reasons.UNREACHABLE, String.valueOf(failed));
    } finally {
      exchange.cancel(true);
    }
  }

  private HttpRequest requestOf(Call call) {
    HttpRequest.Builder request =
        HttpRequest.newBuilder(URI.create(base + call.path))
            .method(
                call.method,
                call.body == null
                    ? BodyPublishers.noBody()
                    : BodyPublishers.ofString(Json.write(call.body)))
            .header("accept", "application/json");
    if (call.body != null) request.header("content-type", "application/json");
    if (call.token != null) request.header("authorization", "Bearer " + call.token);
    if (call.ifNoneMatch != null) request.header("if-none-match", call.ifNoneMatch);
    return request.build();
  }

  private static Answer answerIn(HttpResponse<byte[]> response) {
    if (response.body() == null)
      return new Answer.Failure(Reasons.UNEXPECTED_ANSWER, "the answer is too long");
    int status = response.statusCode();
    Map<String, Object> body =
        Json.parseObject(new String(response.body(), StandardCharsets.UTF_8));
    String stated = body == null ? null : Json.string(body.get("detail"));
    String detail = stated == null ? "status " + status : stated;
    if (status == 429 || status >= 500) {
      String reason = status == 429 ? Reasons.RATE_LIMITED : Reasons.UNAVAILABLE;
      return new Answer.Failure(reason, detail, retryAfter(response));
    }
    if (status == 204 || status == 304 || (status >= 200 && status < 300 && body != null))
      return new Answer.Success(status, body, header(response, "etag"));
    if (status >= 400 && body != null && body.get("code") instanceof String code)
      return new Answer.Refusal(status, code, Json.string(body.get("reason")), detail);
    return new Answer.Failure(Reasons.UNEXPECTED_ANSWER, detail);
  }

  private static Long retryAfter(HttpResponse<?> response) {
    String date = header(response, "date");
    Long ms = Times.retryAfterMs(header(response, "retry-after"), date, System.currentTimeMillis());
    return ms == null ? null : (Long) Math.min(ms, MAX_RETRY_AFTER_MS);
  }

  private static String header(HttpResponse<?> response, String name) {
    return response.headers().firstValue(name).orElse(null);
  }

  /** The bytes of an answer; null as soon as it is too long. */
  private static final class LimitedBody implements BodySubscriber<byte[]> {
    private final CompletableFuture<byte[]> body = new CompletableFuture<>();
    private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    private Flow.Subscription subscription;

    @Override
    public CompletionStage<byte[]> getBody() {
      return body;
    }

    @Override
    public void onSubscribe(Flow.Subscription given) {
      subscription = given;
      given.request(Long.MAX_VALUE);
    }

    @Override
    public void onNext(List<ByteBuffer> buffers) {
      for (ByteBuffer buffer : buffers) {
        byte[] chunk = new byte[buffer.remaining()];
        buffer.get(chunk);
        bytes.writeBytes(chunk);
      }
      if (bytes.size() <= MAX_ANSWER_BYTES) return;
      subscription.cancel();
      bytes.reset();
      body.complete(null);
    }

    @Override
    public void onError(Throwable failed) {
      body.completeExceptionally(failed);
    }

    @Override
    public void onComplete() {
      body.complete(bytes.toByteArray());
    }
  }
}
