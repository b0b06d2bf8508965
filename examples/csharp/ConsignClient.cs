using System.Net;
using System.Net.Http.Headers;
using System.Net.Http.Json;
using System.Runtime.CompilerServices;
using System.Text.Json;

namespace Consign.Sample;

/// <summary>A job to submit. SubjectId says what it is about, and may be any text: a GUID, an order number.</summary>
public sealed record NewJob(string JobType, JsonElement Payload, string? SubjectId = null, string? CorrelationId = null);

/// <summary>The body of 202 Accepted: the job is on disk, and StatusUrl is the address of its status.</summary>
public sealed record Accepted(
    Guid JobId, string? SubjectId, string StatusUrl, string CorrelationId, string Status, bool Duplicate);

/// <summary>The progress that a handler reports.</summary>
public sealed record Progress(int Percent, string? Note);

/// <summary>The status of a job: Queued, Running, then Completed, Failed, Poisoned or Cancelled.</summary>
public sealed record JobStatus(
    Guid JobId, string JobType, string? SubjectId, string CorrelationId, string Status, int Attempt, int MaxAttempts,
    DateTimeOffset CreatedAt, DateTimeOffset? StartedAt, DateTimeOffset? CompletedAt,
    string? ErrorCode, string? ErrorMessage, Progress? Progress, JsonElement? Result)
{
    public bool HasEnded => Status is "Completed" or "Failed" or "Poisoned" or "Cancelled";
}

/// <summary>The server refused the request, and a retry would not help. The message is its problem details.</summary>
public sealed class ConsignException(HttpStatusCode status, string problem) : Exception($"{(int)status}: {problem}");

/// <summary>
/// A client of the HTTP API. The HttpClient has the address of the server (BaseAddress) and the key (Authorization).
/// </summary>
public sealed class ConsignClient(HttpClient http)
{
    /// <summary>About five minutes: a client should give up at some time; a worker's report should not.</summary>
    private const int TriesMax = 35;

    private static readonly TimeSpan RejectedMax = TimeSpan.FromMinutes(1);

    /// <summary>
    /// Submits a job. The key makes a retry safe when an answer got lost: one job comes of it, and the
    /// second answer says Duplicate.
    /// </summary>
    public async Task<Accepted> EnqueueAsync(NewJob job, string idempotencyKey, CancellationToken stop = default)
    {
        HttpRequestMessage NewRequest()
        {
            var request = new HttpRequestMessage(HttpMethod.Post, "/api/jobs") { Content = JsonContent.Create(job) };
            request.Headers.Add("Idempotency-Key", idempotencyKey);
            return request;
        }
        using var answer = await SendAsync(NewRequest, TriesMax, stop);
        return await ReadAsync<Accepted>(answer, stop);
    }

    /// <summary>
    /// Each new status, until the job has ended. Between two requests it waits as long as Retry-After
    /// says, which the server estimates from how fast the queue moves.
    /// </summary>
    public async IAsyncEnumerable<JobStatus> FollowAsync(
        string statusUrl, [EnumeratorCancellation] CancellationToken stop = default)
    {
        EntityTagHeaderValue? version = null;
        while (true)
        {
            HttpRequestMessage NewRequest()
            {
                var request = new HttpRequestMessage(HttpMethod.Get, statusUrl);
                if (version is not null)
                {
                    request.Headers.IfNoneMatch.Add(version);
                }
                return request;
            }
            using var answer = await SendAsync(NewRequest, TriesMax, stop);
            if (answer.StatusCode != HttpStatusCode.NotModified)
            {
                var status = await ReadAsync<JobStatus>(answer, stop);
                yield return status;
                if (status.HasEnded)
                {
                    yield break;
                }
                version = answer.Headers.ETag;
            }
            await Task.Delay(answer.Headers.RetryAfter?.Delta ?? TimeSpan.FromSeconds(1), stop);
        }
    }

    /// <summary>
    /// A request of a worker (claim, heartbeat, settle, release, leave), retried until answered. A key that is rejected
    /// for longer than a minute ends it: a node may learn of a new key late.
    /// </summary>
    public async Task<TAnswer> WorkAsync<TAnswer>(string verb, object body, CancellationToken stop)
    {
        HttpRequestMessage NewRequest() => new(HttpMethod.Post, $"/api/work/{verb}") { Content = JsonContent.Create(body) };
        using var answer = await SendAsync(NewRequest, int.MaxValue, stop);
        return await ReadAsync<TAnswer>(answer, stop);
    }

    /// <summary>
    /// Retries, with growing waits, while the server is away or its answer allows a retry. A message can be
    /// sent only once, so each try makes its own.
    /// </summary>
    private async Task<HttpResponseMessage> SendAsync(Func<HttpRequestMessage> newRequest, int triesMax, CancellationToken stop)
    {
        var wait = TimeSpan.FromMilliseconds(250);
        DateTimeOffset? rejectedSince = null;
        for (var tries = 1; ; tries++)
        {
            var after = TimeSpan.Zero;
            try
            {
                using var request = newRequest();
                var answer = await http.SendAsync(request, stop);
                if (answer.IsSuccessStatusCode || answer.StatusCode == HttpStatusCode.NotModified)
                {
                    return answer;
                }
                using (answer)
                {
                    rejectedSince = IsRejected(answer.StatusCode) ? rejectedSince ?? DateTimeOffset.UtcNow : null;
                    var mayBeKnownSoon = DateTimeOffset.UtcNow - rejectedSince < RejectedMax;
                    if (tries >= triesMax || !(IsTemporary(answer.StatusCode) || mayBeKnownSoon))
                    {
                        throw new ConsignException(answer.StatusCode, await answer.Content.ReadAsStringAsync(stop));
                    }
                    after = answer.Headers.RetryAfter?.Delta ?? TimeSpan.Zero;
                }
            }
            catch (HttpRequestException) when (tries < triesMax)
            {
                // The connection broke, or there was none.
            }
            catch (TaskCanceledException) when (tries < triesMax && !stop.IsCancellationRequested)
            {
                // The request timed out.
            }
            await Task.Delay(after > wait ? after : wait, stop);
            wait = wait < TimeSpan.FromSeconds(5) ? wait * 2 : TimeSpan.FromSeconds(10);
        }
    }

    private static bool IsTemporary(HttpStatusCode status) =>
        (int)status >= 500 || status is HttpStatusCode.RequestTimeout or HttpStatusCode.TooManyRequests;

    private static bool IsRejected(HttpStatusCode status) =>
        status is HttpStatusCode.Unauthorized or HttpStatusCode.Forbidden;

    private static async Task<T> ReadAsync<T>(HttpResponseMessage answer, CancellationToken stop) =>
        await answer.Content.ReadFromJsonAsync<T>(stop) ?? throw new JsonException("the answer is empty");
}
