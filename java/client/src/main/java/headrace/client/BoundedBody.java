package headrace.client;

import java.io.IOException;
import java.net.http.HttpResponse.BodySubscriber;
import java.net.http.HttpResponse.BodySubscribers;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;

/** Takes the text of an answer, and ends the connection when it is longer than it may be. */
final class BoundedBody implements BodySubscriber<String> {
    private final BodySubscriber<String> text = BodySubscribers.ofString(StandardCharsets.UTF_8);
    private final long limit;
    private long bytes;
    private Flow.Subscription connection;

    BoundedBody(long limit) {
        this.limit = limit;
    }

    @Override
    public CompletionStage<String> getBody() {
        return text.getBody();
    }

    @Override
    public void onSubscribe(Flow.Subscription subscription) {
        connection = subscription;
        text.onSubscribe(subscription);
    }

    @Override
    public void onNext(List<ByteBuffer> part) {
        bytes += part.stream().mapToLong(ByteBuffer::remaining).sum();
        if (bytes > limit) {
            connection.cancel();
            text.onError(new IOException("the answer has more than " + limit + " bytes"));
        } else {
            text.onNext(part);
        }
    }

    @Override
    public void onError(Throwable e) {
        text.onError(e);
    }

    @Override
    public void onComplete() {
        text.onComplete();
    }
}
