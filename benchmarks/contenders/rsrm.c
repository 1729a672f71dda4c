/* RSRM for PCA on Gr(d, r), by hand on BLAS and LAPACK: the floor that retrax is measured against.
 *
 * A point is d x r, column by column. Both points stand side by side in one buffer, [x_t, x_{t-1}] or the reverse, so
 * that their gradients are one product and no point is ever copied. Fortran interfaces need no header files.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
void dsyrk_(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
            const double *, double *, const int *);
void dpotrf_(const char *, const int *, double *, const int *, int *);
void dtrsm_(const char *, const char *, const char *, const char *, const int *, const int *, const double *,
            const double *, const int *, double *, const int *);
void dsyev_(const char *, const char *, const int *, double *, const int *, double *, double *, const int *, int *);

static const double ONE = 1, ZERO = 0, MINUS_ONE = -1;

/* c = a b for small symmetric or square r x r matrices: below the size where BLAS pays. */
static void small_product(int r, const double *restrict a, const double *restrict b, double *restrict c) {
    for (int j = 0; j < r; j++) {
        double *restrict column = c + j * r;
        for (int i = 0; i < r; i++) column[i] = 0;
        for (int k = 0; k < r; k++) {
            const double factor = b[j * r + k];
            const double *restrict other = a + k * r;
            for (int i = 0; i < r; i++) column[i] += factor * other[i];
        }
    }
}

/* z = s^(-1/2) by Newton-Schulz while s is near the identity, which it is for all but very long steps. */
static void inverse_sqrt(int r, const double *s, double *z, double *work) {
    double *p = work, *q = work + r * r, *values = work + 2 * r * r;
    double distance = 0;
    for (int j = 0; j < r; j++) {
        double sum = 0;
        for (int i = 0; i < r; i++) {
            z[j * r + i] = ((i == j ? 3.0 : 0.0) - s[j * r + i]) / 2;
            sum += fabs(s[j * r + i] - (i == j));
        }
        if (sum > distance) distance = sum;
    }
    if (distance < 0.9) {
        for (int iteration = 0; iteration < 50; iteration++) {
            double error = 0;
            small_product(r, s, z, p);
            small_product(r, z, p, q);
            for (int k = 0; k < r * r; k++) {
                const double identity = k % (r + 1) == 0, correction = (3 * identity - q[k]) / 2;
                error = fmax(error, fabs(correction - identity));
                p[k] = correction;
            }
            small_product(r, z, p, q);
            memcpy(z, q, sizeof(double) * r * r);
            if (error < 1e-9) return;
        }
    }
    int info, length = 3 * r;
    memcpy(p, s, sizeof(double) * r * r);
    dsyev_("V", "L", &r, p, &r, values, values + r, &length, &info);
    for (int j = 0; j < r; j++)
        for (int i = 0; i < r; i++) q[j * r + i] = p[j * r + i] / sqrt(sqrt(values[j]));
    dgemm_("N", "T", &r, &r, &r, &ONE, q, &r, q, &r, &ZERO, z, &r);
}

/* `steps` steps from t = 2 with d_1 = 0. data: n rows of d; points: 2 d r, the current point in its first half. */
int rsrm_pca(int d, int r, int b, int steps, const double *data, const int32_t *indices, double *points, double eta0,
             double rho0, int polar) {
    const int size = d * r, twice = 2 * r;
    double *batch = malloc(sizeof(double) * ((size_t)d * b + 2 * (size_t)b * r + 5 * (size_t)size + 6 * r * r + 4 * r));
    if (!batch) return 1;
    double *products = batch + d * b, *gradients = products + 2 * b * r, *direction = gradients + 2 * size;
    double *w = direction + size, *moved = w + size, *small = moved + size, *gram = small + r * r;
    double *root = gram + r * r, *work = root + r * r;
    int now = 0, info = 0;
    memset(direction, 0, sizeof(double) * size);
    memcpy(points + size, points, sizeof(double) * size);
    const double factor = -2.0 / b;
    for (int step = 0; step < steps && !info; step++) {
        const double t = step + 2, eta = eta0 * pow(t, -1.0 / 3), keep = 1 - rho0 * pow(t, -2.0 / 3);
        double *x = points + now * size, *previous = points + (1 - now) * size;
        for (int i = 0; i < b; i++)
            memcpy(batch + i * d, data + (size_t)indices[(size_t)step * b + i] * d, sizeof(double) * d);
        dgemm_("T", "N", &b, &twice, &d, &ONE, batch, &d, points, &d, &ZERO, products, &b);
        dgemm_("N", "N", &d, &twice, &b, &factor, batch, &d, products, &b, &ZERO, gradients, &d);
        const double *here = gradients + now * size, *there = gradients + (1 - now) * size;
        const double *inner = products + (1 - now) * b * r;
        for (int k = 0; k < size; k++) w[k] = here[k] + keep * (direction[k] - there[k]);
        /* grad f_S(x_{t-1}) is there - previous (inner' inner) factor: xᵀg needs no product of length d. */
        const double scaled = keep * factor;
        dgemm_("T", "N", &r, &r, &b, &scaled, inner, &b, inner, &b, &ZERO, small, &r);
        dgemm_("N", "N", &d, &r, &r, &ONE, previous, &d, small, &r, &ONE, w, &d);
        dgemm_("T", "N", &r, &r, &d, &ONE, x, &d, w, &d, &ZERO, small, &r);
        memcpy(direction, w, sizeof(double) * size);
        dgemm_("N", "N", &d, &r, &r, &MINUS_ONE, x, &d, small, &r, &ONE, direction, &d);
        /* The new point takes the place of the one before last. */
        double *next = polar ? moved : previous;
        for (int k = 0; k < size; k++) next[k] = x[k] - eta * direction[k];
        dsyrk_("L", "T", &r, &d, &ONE, next, &d, &ZERO, gram, &r);
        if (polar) {
            for (int j = 0; j < r; j++)
                for (int i = 0; i < j; i++) gram[j * r + i] = gram[i * r + j];
            inverse_sqrt(r, gram, root, work);
            dgemm_("N", "N", &d, &r, &r, &ONE, moved, &d, root, &r, &ZERO, previous, &d);
        } else {
            dpotrf_("L", &r, gram, &r, &info);
            dtrsm_("R", "L", "T", "N", &d, &r, &ONE, gram, &r, previous, &d);
        }
        now = 1 - now;
    }
    if (now) memcpy(points, points + size, sizeof(double) * size);
    free(batch);
    return info;
}
