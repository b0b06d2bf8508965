using System.Text.Json;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace Consign.Sample;

/// <summary>A job that this worker holds as long as heartbeats extend its lease.</summary>
public sealed record ClaimedJob(
    Guid JobId, string JobType, string? SubjectId, string CorrelationId, int Attempt, int MaxAttempts,
    JsonElement Payload, Lease Lease);

public sealed record Lease(string Token, DateTimeOffset ExpiresAt, double LeaseSeconds);

/// <summary>The job of a handler, and its progress.</summary>
public sealed class JobContext(ClaimedJob job)
{
    public ClaimedJob Job { get; } = job;

    public Progress? Progress { get; private set; }

    /// <summary>Reports progress, which the status shows within a second or so.</summary>
    public void Report(int percent, string note) => Progress = new Progress(percent, note);
}

/// <summary>
/// Does the work of one job type. A job may run more than once (a process can die at any time), so be
/// idempotent; JobId is the same every time. What it returns becomes the result, up to 4 KiB.
/// </summary>
public interface IJobHandler
{
    string JobType { get; }

    /// <param name="stop">Cancelled when the job is cancelled, or when this process is asked to end.</param>
    Task<object?> HandleAsync(JobContext context, CancellationToken stop);
}

/// <summary>
/// Ends an attempt with a stable code. It is tried again as the policy of the type says, unless Retryable is
/// false (a retry cannot help) or Poisoned is true (the payload is unreadable). Other exceptions are retried.
/// </summary>
public sealed class JobFailedException(string errorCode, string message) : Exception(message)
{
    public string ErrorCode { get; } = errorCode;

    public bool Retryable { get; init; } = true;

    public bool Poisoned { get; init; }
}

/// <summary>One background service per job type, with several slots: each claims a job, runs it and settles it.</summary>
public sealed class JobWorker(ConsignClient consign, IJobHandler handler, ILogger<JobWorker> log) : BackgroundService
{
    private const int Slots = 4;

    // With the job type: each service signs off its own worker, not those of the other services.
    private readonly string workerId = $"{Environment.MachineName}-{Environment.ProcessId}/{handler.JobType}";

    private sealed record Claim(ClaimedJob[] Jobs);

    private sealed record LeaseAnswer(Guid JobId, string State);

    private sealed record HeartbeatAnswer(LeaseAnswer[] Leases);

    private sealed record Problem(int Status, string ErrorCode, string Detail);

    private sealed record SettledItem(Guid JobId, string? Status, Problem? Problem);

    private sealed record Settled(SettledItem[] Items);

    protected override Task ExecuteAsync(CancellationToken stopping) =>
        Task.WhenAll(Enumerable.Range(0, Slots).Select(_ => SlotAsync(stopping)));

    /// <summary>Signs off when every slot has ended, so that the worker is not listed as missing first.</summary>
    public override async Task StopAsync(CancellationToken cancellationToken)
    {
        await base.StopAsync(cancellationToken);
        using var timeout = new CancellationTokenSource(TimeSpan.FromSeconds(2));
        try
        {
            await consign.WorkAsync<JsonElement>("leave", new { workerId }, timeout.Token);
        }
        catch (Exception exception) when (exception is OperationCanceledException or ConsignException)
        {
            log.LogDebug(exception, "the server was not told that {WorkerId} ends", workerId);
        }
    }

    private async Task SlotAsync(CancellationToken stopping)
    {
        while (!stopping.IsCancellationRequested)
        {
            // One claimId per claim: repeated after a broken connection, it brings the same job.
            var request = new
            {
                workerId, claimId = Guid.NewGuid(), jobTypes = new[] { handler.JobType },
                waitSeconds = 30,
            };
            Claim claim;
            try
            {
                // A worker that hangs up while it waits gets nothing leased.
                claim = await consign.WorkAsync<Claim>("claim", request, stopping);
            }
            catch (OperationCanceledException)
            {
                return;
            }
            foreach (var job in claim.Jobs)
            {
                await RunAsync(job, stopping);
            }
        }
    }

    private async Task RunAsync(ClaimedJob job, CancellationToken stopping)
    {
        using var scope = log.BeginScope("{JobId} {CorrelationId}", job.JobId, job.CorrelationId);
        log.LogInformation("{JobType} attempt {Attempt} began", job.JobType, job.Attempt);
        using var stop = CancellationTokenSource.CreateLinkedTokenSource(stopping);
        using var ended = new CancellationTokenSource();
        var context = new JobContext(job);
        var heartbeats = HeartbeatAsync(context, stop, ended.Token);
        var ending = await RunHandlerAsync(context, stop.Token, stopping);
        ended.Cancel();
        await heartbeats;
        // Not cancelled with the process: without a report the job runs a second time.
        var answer = ending is null
            ? await consign.WorkAsync<Settled>("release", Items(new { job.JobId, job.Lease.Token }), CancellationToken.None)
            : await SettleAsync(job, ending);
        log.LogInformation("{JobType} is {Status}", job.JobType, answer.Items[0].Status ?? answer.Items[0].Problem?.ErrorCode);
    }

    /// <summary>
    /// Reports how the attempt ended. When the server refuses the report, such as a result that is too large, it reports
    /// that instead: without any report the job would end as lost.
    /// </summary>
    private async Task<Settled> SettleAsync(ClaimedJob job, object ending)
    {
        var answer = await consign.WorkAsync<Settled>("settle", Items(ending), CancellationToken.None);
        if (answer.Items[0].Problem is not { Status: 400 or 413 } problem)
        {
            return answer;
        }
        var failure = new
        {
            job.JobId, job.Lease.Token, outcome = "failed", retryable = false,
            problem.ErrorCode, errorMessage = problem.Detail,
        };
        return await consign.WorkAsync<Settled>("settle", Items(failure), CancellationToken.None);
    }

    /// <summary>How the attempt ended; null if the process is asked to end and the job should be given back.</summary>
    private async Task<object?> RunHandlerAsync(JobContext context, CancellationToken stop, CancellationToken stopping)
    {
        var (jobId, token) = (context.Job.JobId, context.Job.Lease.Token);
        try
        {
            var result = await handler.HandleAsync(context, stop);
            return new { jobId, token, outcome = "completed", result };
        }
        catch (OperationCanceledException) when (stopping.IsCancellationRequested)
        {
            return null;
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return new { jobId, token, outcome = "cancelled" };
        }
        catch (JobFailedException failed)
        {
            var outcome = failed.Poisoned ? "poisoned" : "failed";
            return new { jobId, token, outcome, failed.Retryable, failed.ErrorCode, errorMessage = failed.Message };
        }
        catch (Exception failed)
        {
            log.LogError(failed, "{JobType} failed", context.Job.JobType);
            return new { jobId, token, outcome = "failed", errorMessage = failed.GetType().Name };
        }
    }

    /// <summary>
    /// Extends the lease after each third of it, and reports new progress within a second; the answer says whether to stop.
    /// </summary>
    private async Task HeartbeatAsync(JobContext context, CancellationTokenSource stop, CancellationToken ended)
    {
        var third = TimeSpan.FromSeconds(context.Job.Lease.LeaseSeconds / 3);
        using var timer = new PeriodicTimer(third < TimeSpan.FromSeconds(1) ? third : TimeSpan.FromSeconds(1));
        var (sentAt, sent) = (DateTimeOffset.UtcNow, context.Progress);
        var (jobId, token) = (context.Job.JobId, context.Job.Lease.Token);
        try
        {
            while (await timer.WaitForNextTickAsync(ended))
            {
                var progress = context.Progress;
                if (progress == sent && DateTimeOffset.UtcNow - sentAt < third)
                {
                    continue;
                }
                (sentAt, sent) = (DateTimeOffset.UtcNow, progress);
                var leases = new[] { new { jobId, token, progress } };
                var answer = await consign.WorkAsync<HeartbeatAnswer>("heartbeat", new { workerId, leases }, ended);
                if (answer.Leases[0].State != "extended")
                {
                    stop.Cancel();
                }
            }
        }
        catch (OperationCanceledException)
        {
            // The attempt has ended.
        }
    }

    private static object Items(object item) => new { items = new[] { item } };
}
